/** JSON whose objects keep the order that their keys were written in, for whoever reads or writes what clients send. */
export {
  entriesOf,
  isSortedKey,
  keysOf,
  markedEntries,
  mayHaveSortedKeys,
  objectInOrder,
  parseInOrder,
  withMarkedKeys,
  writeInOrder,
} from './key-order.ts';
