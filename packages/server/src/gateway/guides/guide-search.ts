import { setImmediate } from 'node:timers/promises';

import { Anchors, plainText } from './markdown.ts';

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

interface Part {
  readonly document: SearchedDocument;
  readonly heading: string | null;
  readonly anchor: string | null;
  readonly text: string;
  /** Occurrences of each stem; a title counts 8, a heading 5. */
  readonly counts: ReadonlyMap<string, number>;
  readonly numWords: number;
}

const MAX_WORDS = 12;
const MAX_HITS = 24;
const EXCERPT_CHARACTERS = 180;
/** Usual constants of BM25: how fast repetitions saturate, and how much a long part loses. */
const [SATURATION, LENGTH_SHARE] = [1.2, 0.6];
/** Weight of a longer word that starts with the searched one, against the word itself. */
const PREFIX_WEIGHT = 0.4;

/** Search in documents by words, in any order and form: `few shot prompts` finds "few-shot prompt". */
export class GuideSearch {
  readonly #parts: readonly Part[];
  readonly #numOfDocuments: ReadonlyMap<string, number>;
  readonly #meanWords: number;

  private constructor(parts: readonly Part[]) {
    this.#parts = parts;
    this.#meanWords = parts.reduce((sum, { numWords }) => sum + numWords, 0) / Math.max(1, parts.length);
    const numOf = new Map<string, number>();
    for (const { counts } of parts) for (const stem of counts.keys()) numOf.set(stem, (numOf.get(stem) ?? 0) + 1);
    this.#numOfDocuments = numOf;
  }

  static async over(documents: readonly SearchedDocument[]): Promise<GuideSearch> {
    const parts: Part[] = [];
    for (const document of documents) {
      parts.push(...partsOf(document));
      // Other requests run between the documents.
      await setImmediate();
    }
    return new GuideSearch(parts);
  }

  /**
   * Documents with all words of the query, best first, guides and reference before documents about the inside;
   * of each the best part. Documents that lack words follow only if no document has all.
   */
  find(query: string): readonly GuideHit[] {
    const words = searchedWords(query);
    if (words.length === 0) return [];
    const forms = words.map((word) => this.#formsOf(word));
    const best = new Map<SearchedDocument, { part: Part; score: number; found: Set<number> }>();
    for (const part of this.#parts) {
      const found = forms.flatMap((form, index) => (form.some(({ stem }) => part.counts.has(stem)) ? [index] : []));
      if (found.length === 0) continue;
      // A part with more of the words wins over one that repeats a few.
      const score = found.reduce((sum, index) => sum + this.#scoreOf(part, forms[index]!), 0) * found.length;
      const known = best.get(part.document);
      if (known === undefined) best.set(part.document, { part, score, found: new Set(found) });
      else {
        for (const index of found) known.found.add(index);
        if (score > known.score) Object.assign(known, { part, score });
      }
    }
    const hits = [...best.values()];
    const most = Math.max(0, ...hits.map(({ found }) => found.size));
    return hits
      .filter(({ found }) => found.size === most)
      .toSorted((a, b) => Number(a.part.document.isInside) - Number(b.part.document.isInside) || b.score - a.score)
      .slice(0, MAX_HITS)
      .map(({ part }) => hitOf(part, forms.flat()));
  }

  /** Stems that a searched word may mean, each with a weight. */
  #formsOf(word: string): { stem: string; weight: number }[] {
    const own = stemOf(word);
    const longer =
      own.length < 3 ? [] : [...this.#numOfDocuments.keys()].filter((stem) => stem !== own && stem.startsWith(own));
    return [{ stem: own, weight: 1 }, ...longer.map((stem) => ({ stem, weight: PREFIX_WEIGHT }))];
  }

  #scoreOf({ counts, numWords }: Part, forms: readonly { stem: string; weight: number }[]): number {
    const length = 1 - LENGTH_SHARE + (LENGTH_SHARE * numWords) / this.#meanWords;
    const scores = forms.map(({ stem, weight }) => {
      const count = counts.get(stem) ?? 0;
      const num = this.#numOfDocuments.get(stem) ?? 0;
      const rarity = Math.log(1 + (this.#parts.length - num + 0.5) / (num + 0.5));
      return (weight * rarity * count * (SATURATION + 1)) / (count + SATURATION * length);
    });
    return Math.max(...scores);
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
  const words = [...new Set(wordsOf(query))];
  const meaning = words.filter((word) => !FILLERS.has(word));
  return (meaning.length > 0 ? meaning : words).slice(0, MAX_WORDS);
}

/** Lower-case words; a name such as `learning_rate` is also its parts. */
function wordsOf(text: string): string[] {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+(?:_[\p{L}\p{N}]+)*/gu) ?? [];
  return words.flatMap((word) => (word.includes('_') ? [word, ...word.split('_')] : [word]));
}

/** Common start of a word's forms: `sampling`, `samples` and `sampled` are `sampl`. */
export function stemOf(word: string): string {
  if (word.length < 4 || /[\d_]/.test(word)) return word;
  const plural = word.replace(/ies$/, 'y').replace(/(?<![su])s$/, '');
  const stem = plural.length < 6 ? plural : plural.replace(/(?:ing|ed)$/, '');
  const single = stem === plural ? stem : stem.replace(/([bdgmnprt])\1$/, '$1');
  return single.length < 4 ? single : single.replace(/e$/, '');
}

function partsOf(document: SearchedDocument): Part[] {
  const anchors = new Anchors();
  const parts: Part[] = [];
  let heading: string | null = null;
  let [anchor, lines]: [string | null, string[]] = [null, []];
  let isCode = false;
  const end = () => {
    const text = plainText(lines.join('\n')).replaceAll(/^\|?[ :|-]+$|^```.*$/gm, '');
    if (heading !== null || text.trim() !== '') parts.push(toPart(document, heading, anchor, text));
  };
  for (const line of document.body.split('\n')) {
    if (/^\s*```/.test(line)) isCode = !isCode;
    const [, , found] = isCode ? [] : (/^(#{1,6}) (.+)$/.exec(line) ?? []);
    if (found === undefined) lines.push(line);
    else {
      end();
      [heading, anchor, lines] = [plainText(found), anchors.next(found), []];
    }
  }
  end();
  return parts;
}

function toPart(document: SearchedDocument, heading: string | null, anchor: string | null, text: string): Part {
  const counts = new Map<string, number>();
  const count = (words: readonly string[], weight: number) => {
    for (const stem of words.map(stemOf)) counts.set(stem, (counts.get(stem) ?? 0) + weight);
  };
  const words = wordsOf(text);
  count(words, 1);
  count(wordsOf(heading ?? ''), 5);
  // The title belongs to all parts, but makes the first one the best for it.
  count(wordsOf(document.title), heading === null ? 8 : 1);
  return { document, heading, anchor, text, counts, numWords: words.length };
}

function hitOf(
  { document, heading, anchor, text }: Part,
  forms: readonly { stem: string; weight: number }[],
): GuideHit {
  const stems = new Set(forms.map(({ stem }) => stem));
  const line = text
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ?\| ?/g, ' · ')
    .trim();
  const first = [...line.matchAll(/[\p{L}\p{N}_]+/gu)].find(([word]) => stems.has(stemOf(word.toLowerCase())));
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
