/**
 * Closes `one` when the stack is disposed of. A constructor that moves its stack at its end leaves nothing open
 * if it throws, when no caller could close it.
 */
export function closedWith<One extends { close(): void }>(opened: DisposableStack, one: One): One {
  return opened.adopt(one, () => one.close());
}
