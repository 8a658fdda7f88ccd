import './labels.css';
import { useState } from 'react';

import { labelModels } from '../../api/models.ts';
import { Dialog } from '../../components/actions/dialog.tsx';
import { Button } from '../../components/button.tsx';
import { counted } from '../../components/numbers.ts';
import { TagInput } from './tag-input.tsx';

/** Adds tags to several models. */
export function TagButton({ modelIds }: { modelIds: readonly string[] }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setIsOpen(true)}>Tag {modelIds.length}</Button>
      <Dialog
        title={`Add tags to ${counted(modelIds.length, 'model')}`}
        isOpen={isOpen}
        onClose={() => setIsOpen(false)}
      >
        <div className="labels tags">
          <TagInput
            onAdd={async (tags) => {
              await labelModels(modelIds, { add_tags: tags });
              setIsOpen(false);
            }}
          />
        </div>
      </Dialog>
    </>
  );
}
