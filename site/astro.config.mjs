import { readFileSync } from 'node:fs';

import starlight from '@astrojs/starlight';
import { defineConfig, passthroughImageService } from 'astro/config';

// Written by site/contents/write-pages.ts before every build.
const sidebar = JSON.parse(readFileSync(new URL('./pages/sidebar.json', import.meta.url), 'utf8'));

export default defineConfig({
  base: process.env.DOCS_BASE ?? '/',
  image: { service: passthroughImageService() },
  // Nothing is fetched while it builds, and nothing is told to anybody.
  telemetry: false,
  integrations: [
    starlight({
      title: 'Trainyard',
      description: 'Self-hosted serverless RL: one service that samples from language models and trains them.',
      sidebar,
      credits: false,
      lastUpdated: false,
      pagination: true,
      customCss: ['./src/site.css'],
    }),
  ],
});
