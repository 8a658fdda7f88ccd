/** Tabs of a model's page, by their path after the model. */
export const MODEL_TABS = [
  { path: '', text: 'Overview' },
  { path: 'charts', text: 'Charts' },
  { path: 'rollouts', text: 'Rollouts' },
  { path: 'checkpoints', text: 'Checkpoints' },
  { path: 'jobs', text: 'Jobs' },
] as const;
