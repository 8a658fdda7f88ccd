import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/** A document of the repository, or a generated one. */
export interface DocumentPage {
  /** Path in the site, without slashes at its ends. */
  readonly slug: string;
  /** Its Markdown file, as a path from the repository's root; absent for a generated page. */
  readonly file?: string;
  /** Generates the Markdown of a generated page, which starts with its title. */
  readonly make?: () => string;
}

export interface DocumentSection {
  readonly label: string;
  /** True for sections about the inside of the service, which come last in menus and searches. */
  readonly isInside?: boolean;
  readonly pages: readonly DocumentPage[];
}

const guide = (name: string): DocumentPage => ({ slug: `guide/${name}`, file: `docs/guide/${name}.md` });
const reference = (name: string): DocumentPage => ({ slug: `reference/${name}`, file: `docs/reference/${name}.md` });

/**
 * All documents, in the order of menus.
 *
 * @param root the repository, or the packed service
 * @param generated pages without a file, the first ones of the reference
 */
export function documentSections(root: string, generated: readonly DocumentPage[]): readonly DocumentSection[] {
  const decisions = readdirSync(join(root, 'docs/decisions'))
    .filter((name) => name !== 'README.md')
    .toSorted();
  return [
    {
      label: 'Start',
      pages: [
        { slug: 'index', file: 'docs/README.md' },
        guide('getting-started'),
        guide('concepts'),
        { slug: 'learning', file: 'docs/learning.md' },
      ],
    },
    {
      label: 'Guides',
      pages: [
        guide('reward-design'),
        guide('supervised'),
        guide('charts-and-warnings'),
        guide('multi-turn'),
        guide('tools'),
        guide('clients'),
        guide('your-own-model'),
        guide('checkpoints'),
        guide('evaluation'),
        guide('operations'),
        guide('security'),
        guide('scaling'),
      ],
    },
    {
      label: 'Moving here',
      pages: [guide('from-art'), guide('from-tinker'), guide('from-openai-fine-tuning'), guide('from-wandb')],
    },
    {
      label: 'Examples',
      pages: [
        { slug: 'examples', file: 'examples/README.md' },
        ...[
          'shaped-words',
          'extraction',
          'calculator',
          'tic-tac-toe',
          'sft-then-rl',
          'verifiers',
          'reasoning-gym',
          'several-machines',
          'kubernetes',
        ].map((name) => ({
          slug: `examples/${name}`,
          file: `examples/${name}/README.md`,
        })),
      ],
    },
    {
      label: 'Reference',
      pages: [
        ...generated,
        reference('settings'),
        reference('errors'),
        reference('events'),
        reference('metrics'),
        reference('chat-completions'),
        reference('kept-answers'),
        reference('conversations'),
        reference('training-api'),
        reference('read-api'),
        reference('keys-and-network'),
        reference('data-folder'),
        reference('licences'),
        reference('minijinja-changes'),
      ],
    },
    {
      label: 'Inside',
      isInside: true,
      pages: [
        { slug: 'inside/architecture', file: 'ARCHITECTURE.md' },
        { slug: 'inside/contributing', file: 'CONTRIBUTING.md' },
        { slug: 'inside/recipes', file: 'docs/recipes.md' },
        { slug: 'inside/glossary', file: 'docs/glossary.md' },
        { slug: 'inside/benchmarks', file: 'docs/benchmarks.md' },
        { slug: 'inside/known-limits', file: 'docs/known-limits.md' },
        { slug: 'inside/traps', file: 'docs/traps.md' },
        { slug: 'inside/changelog', file: 'CHANGELOG.md' },
      ],
    },
    {
      label: 'Lab',
      isInside: true,
      pages: ['scripts', 'testing', 'conformance', 'vllm-suite', 'experiments', 'progress'].map((name) => ({
        slug: `lab/${name}`,
        file: `docs/lab/${name}.md`,
      })),
    },
    {
      label: 'Decisions',
      isInside: true,
      pages: [
        { slug: 'decisions', file: 'docs/decisions/README.md' },
        ...decisions.map((name) => ({
          slug: `decisions/${name.replace(/\.md$/, '')}`,
          file: `docs/decisions/${name}`,
        })),
      ],
    },
  ];
}
