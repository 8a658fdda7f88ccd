/** JSON that keeps the order of object keys as clients wrote them. */
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
