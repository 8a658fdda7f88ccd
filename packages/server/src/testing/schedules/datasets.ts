import { END_TOKEN } from '@trainyard/trainer/testing';

/** Training data: two or three gradient steps, of a few tokens each. */
export const NUM_DATASETS = 4;

const WORDS = ['yes', 'no', 'perhaps', 'never', 'always', 'soon', 'later', 'now'];

export function rolloutJob(modelId: string, dataset: number): object {
  return {
    model_id: modelId,
    trajectory_groups: rolloutGroups(dataset),
    experimental_config: { learning_rate: 0.02, gradient_steps: 2 + (dataset % 2) },
  };
}

export function lessonJob(modelId: string, dataset: number): object {
  const lines = [0, 1, 2, 3].map((index) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: `${dataset}?` },
        { role: 'assistant', content: word(dataset, index) },
      ],
    }),
  );
  const data = Buffer.from(lines.join('\n')).toString('base64');
  return {
    model_id: modelId,
    training_data_url: `data:application/jsonl;base64,${data}`,
    config: { batch_size: 1, learning_rate: 0.02 },
    experimental_config: { held_out_fraction: 0.25, held_out_seed: dataset, held_out_every: 1 + (dataset % 2) },
  };
}

/** Groups with different rewards, so that all of them are trained. */
export function rolloutGroups(dataset: number): object[] {
  return [0, 1, 2].map((group) => ({
    trajectories: [0, 1].map((index) => trajectory(`${dataset}.${group}`, word(dataset, group + index), index)),
  }));
}

export const GROUPS_OF_JOB = 3;
export const TRAJECTORIES_OF_JOB = 6;

const word = (dataset: number, index: number): string => WORDS[(dataset + index) % WORDS.length]!;

function trajectory(question: string, answer: string, reward: number): object {
  const tokenIds = [...Buffer.from(answer), END_TOKEN];
  const content = tokenIds.map((id) => ({ token: `token_id:${id}`, bytes: null, logprob: -1, top_logprobs: [] }));
  return {
    messages_and_choices: [
      { role: 'user', content: question },
      {
        finish_reason: 'stop',
        index: 0,
        token_ids: tokenIds,
        logprobs: { content, refusal: null },
        message: { role: 'assistant', content: answer, refusal: null, tool_calls: null },
      },
    ],
    tools: null,
    additional_histories: [],
    reward,
    metrics: {},
    metadata: {},
    logs: [],
  };
}
