import { shownName } from './shown-name.ts';
/** Words of the service as they are shown: what stands in backquotes is a name. */
export function Words({ text }: { text: string }) {
  return shownName(text)
    .split(/`([^`]+)`/)
    .map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>));
}
