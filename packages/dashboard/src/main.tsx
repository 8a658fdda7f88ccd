import './styles/tokens.css';
import './styles/base.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { queryClient } from './api/query-client.ts';
import { App } from './app.tsx';
import { Toasts } from './components/actions/toasts.tsx';
import { applyTheme } from './shell/use-theme.ts';
// Behind all others, whose place it takes.
import './styles/forced-colors.css';

// Dialogs put a style element into the page while they are open; the page's policy lets in those of this nonce alone.
setNonce(document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? '');
applyTheme();
createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <Toasts>
        <App />
      </Toasts>
    </QueryClientProvider>
  </StrictMode>,
);
