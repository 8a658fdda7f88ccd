import { useState } from 'react';

import { ActionButton } from '../../components/actions/action-button.tsx';
import { Button } from '../../components/button.tsx';
import { shownName } from '../../components/shown-name.ts';

/** Notes as text, or as a field while they are edited. */
export function Notes({ notes, onSave }: { notes: string; onSave: (notes: string) => Promise<void> }) {
  const [draft, setDraft] = useState<string | null>(null);
  if (draft === null)
    return (
      <>
        <Button look="quiet" onClick={() => setDraft(notes)}>
          {notes === '' ? 'Add notes' : 'Edit notes'}
        </Button>
        {notes === '' ? null : <p className="labels-notes">{shownName(notes)}</p>}
      </>
    );
  return (
    <>
      <textarea
        className="input"
        aria-label="Notes"
        rows={4}
        maxLength={10_000}
        autoFocus
        value={draft}
        onChange={({ target }) => setDraft(target.value)}
      />
      <span className="tags">
        <ActionButton
          look="primary"
          onAct={async () => {
            await onSave(draft.trim());
            setDraft(null);
          }}
        >
          Save
        </ActionButton>
        <Button onClick={() => setDraft(null)}>Cancel</Button>
      </span>
    </>
  );
}
