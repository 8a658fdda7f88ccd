import MiniSearch, { type SearchResult } from 'minisearch';
import { stemmer } from 'stemmer';

import { type DocumentPart, documentParts } from './markdown.ts';

/** A document as the search reads it. */
export interface SearchedDocument {
  readonly title: string;
  readonly href: string;
  /** Markdown without the title. */
  readonly body: string;
  readonly isInside: boolean;
}

/** A part of a document, from one heading to the next. */
export interface GuideHit {
  /** Title of its document. */
  readonly title: string;
  /** Heading of the part; null for the start of the document. */
  readonly heading: string | null;
  readonly href: string;
  /** Text around the first word found. */
  readonly excerpt: string;
  readonly isInside: boolean;
}

interface IndexedPart extends DocumentPart {
  readonly id: number;
  readonly document: SearchedDocument;
  /** Title of the document, for its first part only. */
  readonly title: string;
}

const MAX_WORDS = 12;
const MAX_HITS = 24;
const EXCERPT_CHARACTERS = 180;
/** Shortest start of a word that finds the word. */
const PREFIX_CHARACTERS = 3;
/** Other requests run between so many parts. */
const PARTS_AT_ONCE = 50;

/** Search in documents by words, in any order and form: `few shot prompts` finds "few-shot prompt". */
export class GuideSearch {
  readonly #parts: readonly IndexedPart[];
  readonly #index: MiniSearch<IndexedPart>;

  private constructor(parts: readonly IndexedPart[], index: MiniSearch<IndexedPart>) {
    this.#parts = parts;
    this.#index = index;
  }

  static async over(documents: readonly SearchedDocument[]): Promise<GuideSearch> {
    const parts = documents
      .flatMap((document) => documentParts(document.body).map((part) => ({ ...part, document })))
      .map((part, id) => ({ ...part, id, title: part.heading === null ? part.document.title : '' }));
    const index = new MiniSearch<IndexedPart>({
      fields: ['title', 'heading', 'text'],
      extractField: (part, name) => part[name as 'id' | 'title' | 'heading' | 'text'] ?? '',
      tokenize: wordsOf,
      processTerm: stemmer,
    });
    await index.addAllAsync(parts, { chunkSize: PARTS_AT_ONCE });
    return new GuideSearch(parts, index);
  }

  /**
   * Documents with all words of the query, best first, guides and reference before documents about the inside;
   * of each the best part. Documents that lack words follow only if no document has all.
   */
  find(query: string): readonly GuideHit[] {
    const found = this.#index.search(searchedWords(query).join(' '), {
      boost: { title: 4, heading: 3 },
      prefix: (term) => term.length >= PREFIX_CHARACTERS,
      maxFuzzy: 0,
    });
    const best = new Map<SearchedDocument, { result: SearchResult; words: Set<string> }>();
    for (const result of found) {
      const { document } = this.#parts[result.id as number]!;
      const known = best.get(document);
      if (known === undefined) best.set(document, { result, words: new Set(result.queryTerms) });
      else for (const word of result.queryTerms) known.words.add(word);
    }
    const hits = [...best];
    const most = Math.max(0, ...hits.map(([, { words }]) => words.size));
    return hits
      .filter(([, { words }]) => words.size === most)
      .toSorted(([a, one], [b, two]) => Number(a.isInside) - Number(b.isInside) || two.result.score - one.result.score)
      .slice(0, MAX_HITS)
      .map(([, { result }]) => hitOf(this.#parts[result.id as number]!, new Set(result.terms)));
  }
}

/** Words that carry no meaning in a question. */
const FILLERS = new Set(
  'a an and are as at be by can do does for from how i if in is it its my of on or our the there this to what when where which why with you your'.split(
    ' ',
  ),
);

/** Words of a query without fillers, unless it has no others. */
function searchedWords(query: string): string[] {
  const words = [...new Set(query.toLowerCase().match(WORD) ?? [])];
  const meaning = words.filter((word) => !FILLERS.has(word));
  return (meaning.length > 0 ? meaning : words).slice(0, MAX_WORDS);
}

const WORD = /[\p{L}\p{N}]+(?:_[\p{L}\p{N}]+)*/gu;

/** Lower-case words; a name such as `learning_rate` is also its parts. */
function wordsOf(text: string): string[] {
  const words = text.toLowerCase().match(WORD) ?? [];
  return words.flatMap((word) => (word.includes('_') ? [word, ...word.split('_')] : [word]));
}

/** @param stems of the words found */
function hitOf({ document, heading, anchor, text }: IndexedPart, stems: ReadonlySet<string>): GuideHit {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  const first = [...line.matchAll(WORD)].find(([word]) => wordsOf(word).some((part) => stems.has(stemmer(part))));
  const from = Math.max(0, line.lastIndexOf(' ', Math.max(0, (first?.index ?? 0) - 50)) + 1);
  const excerpt = line.slice(from, from + EXCERPT_CHARACTERS);
  return {
    title: document.title,
    heading,
    href: document.href + (anchor === null ? '' : `#${anchor}`),
    excerpt: `${from > 0 ? '… ' : ''}${excerpt}${from + EXCERPT_CHARACTERS < line.length ? ' …' : ''}`,
    isInside: document.isInside,
  };
}
