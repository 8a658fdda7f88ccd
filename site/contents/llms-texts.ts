import type { DocumentText } from '@trainyard/server';

import { address } from './address.ts';
import type { siteContents } from './contents.ts';

const SUMMARY =
  'Trainyard is self-hosted serverless RL: one service that samples from language models (OpenAI-style chat completions) and trains them ' +
  '(reward-labelled trajectories in, LoRA checkpoints out, served at once).';

/** The site for language models: a list of its pages (llmstxt.org), and its whole text in one file. */
export function llmsTexts(
  sections: ReturnType<typeof siteContents>,
  rendered: readonly DocumentText[],
  base: string,
): Record<'llms.txt' | 'llms-full.txt', string> {
  const pageOf = (slug: string) => rendered.find((page) => page.slug === slug)!;
  const lists = sections.map(({ label, pages }) => {
    const lines = pages.map(({ slug }) => {
      const page = pageOf(slug);
      return `- [${page.title}](${address(base, slug)}): ${firstSentence(page.body)}`;
    });
    return `## ${label}\n\n${lines.join('\n')}\n`;
  });
  const texts = rendered.map(({ title, body }) => `# ${title}\n\n${body.trim()}\n`);
  return {
    'llms.txt': `# Trainyard\n\n> ${SUMMARY}\n\n${lists.join('\n')}`,
    'llms-full.txt': `# Trainyard\n\n> ${SUMMARY}\n\n${texts.join('\n')}`,
  };
}

/** Start of the first paragraph of prose, in one line. */
function firstSentence(body: string): string {
  const paragraph = body.split(/\n\n+/).find((part) => /^[A-Z`*]/.test(part.trim()) && !part.startsWith('|')) ?? '';
  const line = paragraph.replaceAll(/\s+/g, ' ').trim();
  return /^.*?[.:](?= |$)/.exec(line)?.[0] ?? line;
}
