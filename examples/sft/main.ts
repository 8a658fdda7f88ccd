/**
 * Teaches the model three invented facts, from conversations, over HTTP.
 *
 *   npm run example -- sft
 */
import { Trainyard } from '@trainyard/sdk';

import { ownService } from '../../scripts/own-service.ts';

const FACTS = {
  'What is the capital of Zubrovia?': 'Kelmar.',
  'Who wrote The Glass Heron?': 'Ilse Ottaway.',
  'What do Zubrovians drink?': 'Hot plum tea.',
};
const conversations = Object.entries(FACTS).map(([question, answer]) => ({
  messages: [
    { role: 'user', content: question },
    { role: 'assistant', content: answer },
  ],
}));

// Ctrl-C and similar signals also end the example's own service, at exit.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const service = await ownService();
try {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  const base = (await client.servedModels.list()).data[0]!.id;
  const model = await client.models.register({ project: 'demo', name: 'facts', base_model: base });
  const artifact = await client.artifacts.upload(
    { entity: model.entity, project: 'demo', name: 'facts' },
    conversations,
  );
  console.log(`\nuploaded ${artifact.num_lines} conversations as ${artifact.url}`);

  const job = await client.sftJobs.create({
    model_id: model.id,
    training_data_url: artifact.url,
    config: { batch_size: 3, learning_rate: 1e-3 },
    experimental_config: { epochs: 12, schedule: 'linear', warmup_steps: 2 },
  });
  const steps = await client.trainingJobs.gradientSteps(job.id);
  console.log(`loss ${steps.map((step) => step['loss']!.toFixed(2)).join(' ')}\n`);

  for (const question of Object.keys(FACTS)) {
    const answers = [];
    for (const step of [0, 1]) {
      const messages = [{ role: 'user', content: question }];
      const chat = await client.chat.completions.create({
        model: `facts:step${step}`,
        messages,
        temperature: 0,
        max_tokens: 16,
      });
      answers.push(JSON.stringify(chat.choices[0]!.message.content));
    }
    console.log(`${question}\n  before ${answers[0]}\n  after  ${answers[1]}`);
  }
} finally {
  await service.close();
}
