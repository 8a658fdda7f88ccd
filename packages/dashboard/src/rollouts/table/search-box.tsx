import { useEffect, useState } from 'react';

import { Button } from '../../components/button.tsx';

/** A search in messages of rollouts. Runs on submit, because the service reads them from disk. */
export function SearchBox({ text, onSearch }: { text: string; onSearch: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  return (
    <form
      className="search-box"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(typed.trim());
      }}
    >
      <input
        className="input"
        type="search"
        aria-label="Search messages"
        placeholder="Search messages"
        maxLength={200}
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
      />
      <Button type="submit">Search</Button>
      {text === '' ? null : (
        <Button look="quiet" onClick={() => onSearch('')}>
          Clear
        </Button>
      )}
    </form>
  );
}
