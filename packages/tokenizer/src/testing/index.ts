/** Test support for dependent packages: `@trainyard/tokenizer/testing`. */
export { ByteVocabulary, type ByteVocabularyOptions } from './byte-vocabulary.ts';
export { comparePrompts, type ComparedPrompts } from './compare-prompts.ts';
