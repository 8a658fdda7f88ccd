import type { ModelDetailsObject } from '@trainyard/sdk';
import { Link, useLocation } from 'wouter';

import { deleteModels, labelModels } from '../api/models.ts';
import { useMay } from '../api/session.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';

/** Actions for a whole model. */
export function ModelActions({ model }: { model: ModelDetailsObject }) {
  const [, navigate] = useLocation();
  const mayChat = useMay('inference');
  const name = `${model.entity}/${model.project}/${model.name}`;
  return (
    <>
      {model.tracked_run?.url == null ? null : (
        <a className="button" href={model.tracked_run.url} rel="noreferrer">
          In {model.tracked_run.tracker}
        </a>
      )}
      {model.archived_at === null ? (
        <ActionButton look="quiet" onAct={() => labelModels([model.id], { is_archived: true })}>
          Archive
        </ActionButton>
      ) : null}
      <ConfirmButton
        label="Delete"
        name={`Delete ${model.name}`}
        question={`Delete ${model.name}?`}
        explanation="Deletes its checkpoints with their files, its metrics and its rollouts for good, and cancels its jobs."
        onConfirm={async () => {
          await deleteModels([model.id]);
          navigate('/models');
        }}
      />
      {mayChat ? (
        <Link className="button" data-look="primary" href={`/chat?${new URLSearchParams({ model: name })}`}>
          Chat
        </Link>
      ) : null}
    </>
  );
}
