/**
 * Embeddings, asked for once per text.
 *
 * @module
 */

import { createHash } from "node:crypto";
import type { IndexConfig } from "@langchain/langgraph-checkpoint";
import { invalid } from "../../log/errors.ts";

/** Texts whose vectors are remembered. */
const REMEMBERED = 10_000;

/** A vector of length 1, so that a dot product is a cosine; all zero where there is no direction. */
export type Unit = Float32Array<ArrayBuffer>;

/** What embeds. */
type Embeddings = Pick<IndexConfig["embeddings"], "embedDocuments" | "embedQuery">;

/** Embeds texts, all that are new in one call; those under way or remembered are not asked for again. */
export class Embedder {
  readonly #embeddings: Embeddings;
  readonly #dims: number;
  readonly #known = new Map<string, Promise<Unit>>();

  constructor(embeddings: Embeddings, dims: number) {
    this.#embeddings = embeddings;
    this.#dims = dims;
  }

  /** The vectors of texts, in their order. */
  async documents(texts: readonly string[]): Promise<Unit[]> {
    const missing = [...new Set(texts)].filter((text) => !this.#known.has(nameOf("d", text)));
    if (missing.length > 0) {
      const vectors = this.#embeddings.embedDocuments(missing);
      missing.forEach((text, i) => this.#remember(nameOf("d", text), vectors.then((all) => this.#unit(all[i]))));
    }
    return await Promise.all(texts.map((text) => this.#known.get(nameOf("d", text))!));
  }

  /** The vector of a query. */
  async query(text: string): Promise<Unit> {
    const name = nameOf("q", text);
    if (!this.#known.has(name)) {
      this.#remember(name, this.#embeddings.embedQuery(text).then((vector) => this.#unit(vector)));
    }
    return await this.#known.get(name)!;
  }

  #remember(name: string, vector: Promise<Unit>): void {
    this.#known.set(name, vector);
    // A failure shows to whoever asked, and is not remembered.
    vector.catch(() => this.#known.delete(name));
    if (this.#known.size > REMEMBERED) {
      // The oldest; those being waited for are among the newest.
      for (const old of this.#known.keys()) {
        if (this.#known.size <= REMEMBERED * 0.9) break;
        this.#known.delete(old);
      }
    }
  }

  #unit(vector: readonly number[] | undefined): Unit {
    if (vector === undefined || vector.length !== this.#dims) {
      throw invalid(
        `The embeddings gave ${vector === undefined ? "no vector" : `${vector.length} numbers`} for a text`,
        "index.dims",
        `It says ${this.#dims}.`,
      );
    }
    return toUnit(vector);
  }
}

/** Scales a vector to length 1. */
export function toUnit(vector: readonly number[]): Unit {
  let sum = 0;
  for (const x of vector) sum += x * x;
  const scale = sum === 0 ? 0 : 1 / Math.sqrt(sum);
  return Float32Array.from(vector, (x) => x * scale);
}

function nameOf(kind: "d" | "q", text: string): string {
  return kind + createHash("sha256").update(text).digest("base64");
}
