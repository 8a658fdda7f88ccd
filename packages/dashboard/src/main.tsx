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
// Imported last, because it overrides all others.
import './styles/forced-colors.css';

// Open dialogs add a style element to the page; the page's policy allows only those with this nonce.
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
