/** What tests of the packages above need of this one: `@trainyard/tokenizer/testing`. */
export { ByteVocabulary, type ByteVocabularyOptions } from './byte-vocabulary.ts';
