import { type RefObject, useEffect, useRef, useState } from 'react';

/** Detects when an element comes near the viewport. @returns a ref for the element, and whether it has */
export function useInView<Element_ extends Element>(): readonly [RefObject<Element_ | null>, boolean] {
  const element = useRef<Element_>(null);
  const [hasComeNear, setHasComeNear] = useState(false);
  useEffect(() => {
    if (element.current === null || hasComeNear) return;
    const observer = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && setHasComeNear(true),
      { rootMargin: '300px' },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [hasComeNear]);
  return [element, hasComeNear];
}
