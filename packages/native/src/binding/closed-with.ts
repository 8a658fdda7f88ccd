/** Closes `one` with the stack. A constructor that moves its stack at its end leaves nothing open if it throws. */
export function closedWith<One extends { close(): void }>(opened: DisposableStack, one: One): One {
  return opened.adopt(one, () => one.close());
}
