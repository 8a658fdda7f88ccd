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
  /** Searched words that the document lacks. */
  readonly missing: readonly string[];
  readonly isInside: boolean;
}

interface IndexedPart extends DocumentPart {
  readonly id: number;
  readonly document: SearchedDocument;
  /** Title of the document, for its first part only. */
  readonly title: string;
}

const MAX_WORDS = 12;
/** Maximum hits of each kind: guides, and documents about the inside. */
const MAX_HITS = 12;
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
   * Documents with most words of the query, best first, guides and reference before documents about the inside; of
   * each the best part. A document that lacks words is found only if none of its kind has more, and it has half.
   */
  find(query: string): readonly GuideHit[] {
    const words = searchedWords(query);
    const found = this.#index.search(words.join(' '), {
      boost: { title: 4, heading: 3 },
      prefix: (term) => term.length >= PREFIX_CHARACTERS,
    });
    // In the order of `found`, best first.
    const best = new Map<SearchedDocument, { result: SearchResult; stems: Set<string> }>();
    for (const result of found) {
      const { document } = this.#parts[result.id as number]!;
      const known = best.get(document);
      if (known === undefined) best.set(document, { result, stems: new Set(result.queryTerms) });
      else for (const stem of result.queryTerms) known.stems.add(stem);
    }
    const missingOf = (stems: ReadonlySet<string>) =>
      words.filter((word) => !wordsOf(word).every((part) => stems.has(stemmer(part))));
    return [false, true].flatMap((isInside) => {
      const hits = [...best.values()]
        .map(({ result, stems }) => ({ result, part: this.#parts[result.id as number]!, missing: missingOf(stems) }))
        .filter(({ part }) => part.document.isInside === isInside);
      const least = Math.min(words.length / 2, ...hits.map(({ missing }) => missing.length));
      return hits
        .filter(({ missing }) => missing.length === least)
        .slice(0, MAX_HITS)
        .map(({ result, part, missing }) => hitOf(part, new Set(result.terms), missing));
    });
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
function hitOf(
  { document, heading, anchor, text }: IndexedPart,
  stems: ReadonlySet<string>,
  missing: readonly string[],
): GuideHit {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  const first = [...line.matchAll(WORD)].find(([word]) => wordsOf(word).some((part) => stems.has(stemmer(part))));
  const from = Math.max(0, line.lastIndexOf(' ', Math.max(0, (first?.index ?? 0) - 50)) + 1);
  const excerpt = line.slice(from, from + EXCERPT_CHARACTERS);
  return {
    title: document.title,
    heading,
    href: document.href + (anchor === null ? '' : `#${anchor}`),
    excerpt: `${from > 0 ? '… ' : ''}${excerpt}${from + EXCERPT_CHARACTERS < line.length ? ' …' : ''}`,
    missing,
    isInside: document.isInside,
  };
}
