import { useEffect, useState } from 'react';

import { Button } from '../components/button.tsx';

/** Something that is said in rollouts, searched when it is submitted: it is read from the disk. */
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
        aria-label="Search in what is said"
        placeholder="Search in what is said"
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
