/** Inputs of the PyTorch fixture, all of which the fixture contains; after a change recreate it. */
import type { WireTrainingConfig } from '@trainyard/protocol';

export interface Turn {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}
/** Assistant turns are trained as sampled replies; `histories` has one conversation or, for an agent that rewrote its context, several. */
export interface Rollout {
  readonly reward: number;
  readonly histories: readonly (readonly Turn[])[];
}

const turns = (...contents: string[]): Turn[] =>
  contents.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }));
const answers = (question: string, scored: readonly (readonly [number, string])[]): Rollout[] =>
  scored.map(([reward, answer]) => ({ reward, histories: [turns(question, answer)] }));

/**
 * Replies of different lengths, conversations of two turns, a trajectory with two histories, and a group of
 * equal rewards.
 */
export const GROUPS: readonly (readonly Rollout[])[] = [
  answers('Name a colour and say why you like it.', [
    [1, 'Blue, because it reminds me of the sea.'],
    [0.25, 'I like green. It is the colour of leaves, and of rest.'],
    [-0.5, 'Red!'],
    [0, 'Colours are a property of light, which has many wavelengths.'],
  ]),
  [
    {
      reward: 3,
      histories: [turns('What is 2 + 3?', '5', 'And one more?', '6, since 5 + 1 = 6.')],
    },
    { reward: 1, histories: [turns('What is 2 + 3?', 'Five.', 'And one more?', 'Seven?')] },
    {
      reward: 1.5,
      histories: [turns('What is 2 + 3?', '2 + 3 is 5.'), turns('Add 2 and 3, then say the result aloud.', 'Five!')],
    },
  ],
  answers('Say yes.', [
    [0.5, 'Yes.'],
    [0.5, 'No.'],
  ]),
];

/** ART's aggregation. */
const ART = { loss_aggregation: 'normalized_trajectory' } as const;

/**
 * Very different settings, each with an effect on some tokens or histories; under the names of
 * `experimental_config`.
 */
export const CASES: Readonly<Record<string, WireTrainingConfig>> = {
  cispo: { learning_rate: 5e-3, ...ART },
  ppo: { learning_rate: 5e-3, ...ART, ppo: true, epsilon: 0.2, advantage_balance: -0.5 },
  'sequence level and tau': {
    learning_rate: 5e-3,
    ...ART,
    ppo: true,
    epsilon: 0.08,
    importance_sampling_level: 'sequence',
    kimi_k2_tau: 0.1,
  },
  'cap and mask': {
    learning_rate: 5e-3,
    ...ART,
    epsilon: 0.15,
    epsilon_high: 0.5,
    importance_sampling_level: 'geometric_average',
    max_negative_advantage_importance_sampling_weight: 1.2,
    mask_prob_ratio: true,
    scale_rewards: false,
  },
  'average level and KL penalty': {
    learning_rate: 5e-3,
    ...ART,
    ppo: true,
    epsilon: 0.1,
    epsilon_high: 0.2,
    importance_sampling_level: 'average',
    kl_penalty_coef: 0.2,
  },
  'KL penalty by token': { learning_rate: 5e-3, kl_penalty_coef: 0.2, loss_aggregation: 'token' },
  'recomputed and truncated': {
    learning_rate: 5e-3,
    precalculate_logprobs: true,
    truncated_importance_sampling: 1.1,
    loss_aggregation: 'trajectory',
  },
  'by token': { learning_rate: 5e-3, epsilon: 0.1, epsilon_high: 0.1, loss_aggregation: 'token' },
  'by a constant': {
    learning_rate: 5e-3,
    ppo: true,
    loss_aggregation: 'constant',
    loss_aggregation_length: 16,
    scale_rewards: false,
  },
};

/** Trained one after the other by one service: weights and momentum carry over. */
export const CHAIN: readonly string[] = ['cispo', 'ppo', 'sequence level and tau', 'average level and KL penalty'];

/** At least 257 tokens; its log-probabilities identify a policy. */
export const PROBE_TEXT = `A lighthouse keeper counts the ships that pass at night. Most of them are small: fishing boats that leave at two in
the morning, with a lamp at the mast and somebody asleep below. Now and then a freighter goes by, slow as a house on wheels, and the keeper
writes its name into the book, if it can be read. In winter the book stays empty for days. The keeper then repairs what the summer has broken:
the hinge of the door, the third step, the radio that only knows one station. Why does anyone do this work? "Because the light has to turn," the
keeper says, and it sounds like an answer until you think about it. The light has been electric since 1962. It turns by itself, reports its own
faults by telephone, and once a year an engineer comes with a new bulb, which weighs 4 kilograms and costs 1,250 euros. What the keeper really
does is to watch. In 31 years there were five calls: two fires on board, a man in the water, a whale that was not a wreck, and a child who had
rowed out to see the light from the other side. She was eight years old, and not at all afraid. She asked how the beam knows where to go.`;
