import { useId, useMemo, useState } from 'react';

import { useAllModels } from '../../api/all-models.ts';
import { useToast } from '../../components/actions/toasts.tsx';
import { faultText } from '../../components/fault.tsx';
import { tagsOf } from '../../components/lists/model-filter.ts';
import { shownName } from '../../components/shown-name.ts';

/** Adds tags, separated by commas, on Enter; offers those of other models. */
export function TagInput({ onAdd }: { onAdd: (tags: string[]) => Promise<void> }) {
  const [text, setText] = useState('');
  const [isUsed, setIsUsed] = useState(false);
  const toast = useToast();
  const listId = useId();
  const { models } = useAllModels({ enabled: isUsed });
  const known = useMemo(() => tagsOf(models), [models]);
  const add = async () => {
    const tags = text.split(',').map((tag) => tag.trim());
    const wanted = tags.filter((tag) => tag !== '');
    if (wanted.length === 0) return;
    try {
      await onAdd(wanted);
      setText('');
    } catch (error) {
      toast(faultText(error), 'bad');
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void add();
      }}
    >
      <input
        className="input"
        aria-label="Add tags, separated by commas"
        placeholder="Add tag"
        list={listId}
        value={text}
        onFocus={() => setIsUsed(true)}
        onChange={({ target }) => setText(target.value)}
      />
      <datalist id={listId}>
        {known.map((tag) => (
          <option key={tag} value={tag}>
            {shownName(tag)}
          </option>
        ))}
      </datalist>
    </form>
  );
}
