/** Remedy for a damaged database, for messages. */
export const DAMAGE_REMEDIES =
  'Move it away and restore a backup with `trainyard restore FOLDER`, or start with `--adopt-blobs` to rebuild models and checkpoints from the blobs';
