/** Remembers in the history entry how far a list was scrolled. @param top px */
export function keepPlace(top: number): void {
  history.replaceState({ ...(history.state as object | null), listTop: top }, '');
}

/** Place of the list in this history entry; null for a new one. */
export function keptPlace(): number | null {
  const { listTop = null } = (history.state ?? {}) as { listTop?: number | null };
  return listTop;
}
