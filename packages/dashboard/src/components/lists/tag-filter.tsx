import { useSearchParams } from 'wouter';

import { Menu, MenuCheck } from '../actions/menu.tsx';
import { shownName } from '../shown-name.ts';

/** Tags in the address, any of which a model must have; nothing if there are no tags. */
export function TagFilter({ tags }: { tags: readonly string[] }) {
  const [parameters, setParameters] = useSearchParams();
  const chosen = parameters.getAll('tag');
  const offered = [...new Set([...tags, ...chosen])].toSorted();
  if (offered.length === 0) return null;
  const choose = (tag: string, isChosen: boolean) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams(before);
        after.delete('tag');
        for (const one of isChosen ? [...chosen, tag] : chosen.filter((one) => one !== tag)) after.append('tag', one);
        return after;
      },
      { replace: true },
    );
  return (
    <Menu label={chosen.length === 0 ? 'Tags' : `Tags: ${chosen.map(shownName).join(', ')}`}>
      {offered.map((tag) => (
        <MenuCheck key={tag} isChecked={chosen.includes(tag)} onChange={(isChosen) => choose(tag, isChosen)}>
          {shownName(tag)}
        </MenuCheck>
      ))}
    </Menu>
  );
}
