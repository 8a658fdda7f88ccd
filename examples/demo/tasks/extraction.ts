import { singleTurn } from '../task.ts';

interface Person {
  readonly name: string;
  readonly age: number;
  readonly city: string;
}

const PEOPLE: readonly (Person & { readonly text: string })[] = [
  { name: 'Anna', age: 34, city: 'Rome', text: 'Anna is 34 years old and lives in Rome.' },
  { name: 'Lars', age: 51, city: 'Oslo', text: 'In Oslo we met Lars, a man of 51.' },
  { name: 'Mina', age: 19, city: 'Cairo', text: 'Mina turned 19 last week. Her flat is in Cairo.' },
  { name: 'Paul', age: 42, city: 'Ghent', text: 'A teacher from Ghent, Paul, 42, won the race.' },
  { name: 'Ines', age: 67, city: 'Porto', text: 'Porto has been the home of Ines for all of her 67 years.' },
  { name: 'Omar', age: 25, city: 'Tunis', text: 'At 25, Omar opened a bakery in Tunis.' },
  { name: 'Ruth', age: 73, city: 'Haifa', text: 'Ruth, who is 73, moved to Haifa.' },
  { name: 'Igor', age: 38, city: 'Minsk', text: 'The driver was Igor from Minsk, aged 38.' },
];

/** One example in the prompt shows the keys and their types. */
function extractionPrompt(text: string): string {
  return `Extract the person as JSON with the keys "name", "age" and "city".

Text: Maria is 28 and lives in Lisbon.
JSON: {"name": "Maria", "age": 28, "city": "Lisbon"}

Text: ${text}
JSON:`;
}

const LESSONS: readonly (Person & { readonly text: string })[] = [
  { name: 'Nora', age: 45, city: 'Turku', text: 'Nora, 45, runs a theatre in Turku.' },
  { name: 'Felix', age: 12, city: 'Graz', text: 'The youngest player was Felix from Graz; he is 12.' },
  { name: 'Aiko', age: 58, city: 'Osaka', text: 'For 58 years Aiko has lived in Osaka.' },
  { name: 'Juan', age: 30, city: 'Lima', text: 'Juan turned 30 in May. He works in Lima.' },
  { name: 'Petra', age: 81, city: 'Brno', text: 'In Brno lives Petra, who is 81.' },
  { name: 'Sami', age: 22, city: 'Amman', text: 'Sami is 22 years old and studies in Amman.' },
  { name: 'Greta', age: 36, city: 'Malmo', text: 'A nurse aged 36, Greta moved to Malmo.' },
  { name: 'Kofi', age: 64, city: 'Accra', text: 'Kofi from Accra retired at 64.' },
];

/** People who are not in the task, with the answers: for lessons by example. */
export const EXTRACTION_LESSONS = LESSONS.map(({ text, ...person }) => ({
  prompt: extractionPrompt(text),
  reply: JSON.stringify(person).replaceAll('":', '": ').replaceAll(',"', ', "'),
}));

/** Checks the schema: exactly these keys, with these types. */
function asPerson(answer: string): Partial<Record<keyof Person, unknown>> | null {
  try {
    const value: unknown = JSON.parse(answer);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** A quarter for an object of the schema, and a quarter for each right value. Other text gets nothing. */
export const extraction = singleTurn({
  name: 'extraction',
  summary: 'answer with a JSON object of a schema, its values from a sentence',
  prompts: PEOPLE.map(({ text }) => extractionPrompt(text)),
  maxTokens: 40,
  settings: {},
  reward(promptIndex, answer) {
    const person = PEOPLE[promptIndex]!;
    const found = asPerson(answer);
    if (found === null) return 0;
    const fitsSchema =
      Object.keys(found).length === 3 &&
      typeof found.name === 'string' &&
      Number.isInteger(found.age) &&
      typeof found.city === 'string';
    const numRight = (['name', 'age', 'city'] as const).filter((key) => found[key] === person[key]).length;
    return (Number(fitsSchema) + numRight) / 4;
  },
});
