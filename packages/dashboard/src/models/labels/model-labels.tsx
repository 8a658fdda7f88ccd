import '../../components/field.css';
import './labels.css';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { labelModels } from '../../api/models.ts';
import { ActionButton } from '../../components/actions/action-button.tsx';
import { Tags } from '../../components/lists/tags.tsx';
import { Notice } from '../../components/notice.tsx';
import { Ago } from '../../components/time.tsx';
import { Notes } from './notes.tsx';
import { TagInput } from './tag-input.tsx';

/** Tags and notes of a model, edited in place, and its way out of the archive. */
export function ModelLabels({ model: { id, tags, notes, archived_at: archivedAt } }: { model: ModelDetailsObject }) {
  return (
    <section className="labels" aria-label="Tags and notes">
      {archivedAt === null ? null : (
        <Notice>
          <span>
            Archived <Ago at={archivedAt} />: in no list, served by its name, and not trained.
          </span>
          <ActionButton onAct={() => labelModels([id], { is_archived: false })}>Restore</ActionButton>
        </Notice>
      )}
      <div className="tags">
        <Tags
          tags={tags}
          action={(tag) => (
            <ActionButton
              look="quiet"
              aria-label={`Remove the tag ${tag}`}
              onAct={() => labelModels([id], { remove_tags: [tag] })}
            >
              ×
            </ActionButton>
          )}
        />
        <TagInput onAdd={(added) => labelModels([id], { add_tags: added })} />
      </div>
      <Notes key={id} notes={notes} onSave={(text) => labelModels([id], { notes: text })} />
    </section>
  );
}
