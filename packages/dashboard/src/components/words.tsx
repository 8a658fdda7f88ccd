import { shownName } from './shown-name.ts';
/** Text of the service with names in backquotes shown as code. */
export function Words({ text }: { text: string }) {
  return shownName(text)
    .split(/`([^`]+)`/)
    .map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>));
}
