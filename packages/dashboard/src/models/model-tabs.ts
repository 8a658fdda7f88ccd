/** Parts of a model's page, by what the address has behind the model. */
export const MODEL_TABS = [
  { path: '', text: 'Overview' },
  { path: 'charts', text: 'Charts' },
  { path: 'rollouts', text: 'Rollouts' },
  { path: 'checkpoints', text: 'Checkpoints' },
  { path: 'jobs', text: 'Jobs' },
] as const;
