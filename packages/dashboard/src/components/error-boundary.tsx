import { Component, type ReactNode } from 'react';

import { Fault } from './fault.tsx';
import { Page } from './page.tsx';

/** Shows the error of a failed page and keeps the navigation usable. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <Page title="This page failed">
        <Fault error={error} />
        <p>
          <a href="">Reload</a>
        </p>
      </Page>
    );
  }
}
