import { useSearchParams } from 'wouter';

import { Menu, MenuCheck } from '../actions/menu.tsx';
import { changed } from './changed.ts';
import { shownName } from '../shown-name.ts';

/** Tags in the address, any of which a model must have; nothing if there are no tags. */
export function TagFilter({ tags }: { tags: readonly string[] }) {
  const [parameters, setParameters] = useSearchParams();
  const chosen = parameters.getAll('tag');
  const offered = [...new Set([...tags, ...chosen])].toSorted();
  if (offered.length === 0) return null;
  const choose = (tag: string, isChosen: boolean) => {
    const others = chosen.filter((one) => one !== tag);
    setParameters((before) => changed(before, { tag: isChosen ? [...others, tag] : others }), { replace: true });
  };
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
