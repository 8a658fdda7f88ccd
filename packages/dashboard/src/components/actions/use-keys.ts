import { useEffect, useRef } from 'react';

/** Calls a function for a key pressed anywhere but in a field or menu. */
export function useKeys(keys: Readonly<Record<string, () => void>>, isActive = true): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    if (!isActive) return;
    const onKeyDown = ({ key, target, altKey, ctrlKey, metaKey }: KeyboardEvent) => {
      const isTyping = target instanceof Element && target.closest('input, textarea, select, [role="menu"]') !== null;
      if (!isTyping && !metaKey && !ctrlKey && !altKey) latest.current[key]?.();
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, [isActive]);
}
