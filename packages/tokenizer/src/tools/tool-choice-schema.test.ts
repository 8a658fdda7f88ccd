import { describe, expect, test } from 'vitest';
import { toolChoiceSchema } from './tool-choice-schema.ts';
import type { ToolDescription } from '../contract/tool-description.ts';

const tool = (name: string, parameters?: Record<string, unknown> | null): ToolDescription => ({
  type: 'function',
  function: { name, ...(parameters === undefined ? {} : { parameters }) },
});
const malformed = (message: RegExp) =>
  expect.objectContaining({ code: 'tokenizer.tools_malformed', message: expect.stringMatching(message) });
const X = { type: 'object', properties: { x: { type: 'integer' } }, required: ['x'] };
const EMPTY = { type: 'object', properties: {} };
const alternative = (name: string, parameters: object) => ({
  type: 'object',
  properties: { name: { type: 'string', enum: [name] }, parameters },
  required: ['name', 'parameters'],
});

describe('required', () => {
  test('a list of calls, one alternative a tool', () => {
    expect(toolChoiceSchema([tool('f', X), tool('g'), tool('h', null)], 'required')).toEqual({
      type: 'array',
      minItems: 1,
      items: { type: 'object', anyOf: [alternative('f', X), alternative('g', EMPTY), alternative('h', EMPTY)] },
    });
  });

  test('one call only, when calls are not to be parallel', () => {
    expect(toolChoiceSchema([tool('f')], 'required', { parallelToolCalls: false })).toMatchObject({
      minItems: 1,
      maxItems: 1,
    });
    expect(toolChoiceSchema([tool('f')], 'required', { parallelToolCalls: true })).not.toHaveProperty('maxItems');
  });

  test('definitions move to the top, where references look for them', () => {
    const city = { type: 'string' };
    const first = { ...X, $defs: { city, day: { type: 'integer' } } };
    const second = {
      ...X,
      $defs: { city: { type: 'string' }, ['__proto__']: { type: 'null' } },
      definitions: { old: city },
    };
    const schema = toolChoiceSchema([tool('f', first), tool('g', second)], 'required');
    expect(schema['$defs']).toEqual(
      JSON.parse('{"city":{"type":"string"},"day":{"type":"integer"},"__proto__":{"type":"null"}}'),
    );
    expect(schema['definitions']).toEqual({ old: city });
    expect(schema['items']).toEqual({ type: 'object', anyOf: [alternative('f', X), alternative('g', X)] });
    expect(first).toHaveProperty('$defs'); // what was given is unchanged
  });

  test('references to the root of a schema, or to places in it, follow it', () => {
    const tree = {
      type: 'object',
      properties: {
        children: { type: 'array', items: { $ref: '#' } },
        twin: { $ref: '#/properties/children' },
        id: { $ref: '#/$defs/id' },
      },
      $defs: { id: { type: 'string' } },
    };
    const schema = toolChoiceSchema([tool('f'), tool('tree', tree)], 'required');
    const root = '#/items/anyOf/1/properties/parameters';
    expect(schema).toMatchObject({
      items: {
        anyOf: [
          {},
          {
            properties: {
              parameters: {
                properties: {
                  children: { items: { $ref: root } },
                  twin: { $ref: `${root}/properties/children` },
                  id: { $ref: '#/$defs/id' },
                },
              },
            },
          },
        ],
      },
    });
    // Each of them leads somewhere.
    const at = (pointer: string) =>
      pointer
        .slice(2)
        .split('/')
        .reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], schema);
    expect(at(root)).toHaveProperty('properties.children');
    expect(at(`${root}/properties/children`)).toHaveProperty('type', 'array');
    expect(toolChoiceSchema([tool('tree', tree)], { name: 'tree' })).toEqual(tree);
  });

  test('schemas that are nested too deep', () => {
    let deep: Record<string, unknown> = {};
    for (let depth = 0; depth < 20_000; depth++) deep = { items: deep };
    expect(() => toolChoiceSchema([tool('f', deep)], 'required')).toThrow(/128 levels/);
  });

  test('definitions that contradict each other are an error', () => {
    const tools = [tool('f', { $defs: { c: { type: 'string' } } }), tool('g', { $defs: { c: { type: 'integer' } } })];
    expect(() => toolChoiceSchema(tools, 'required')).toThrow(malformed(/f and g define "c" differently/));
  });

  test('no tools', () => {
    expect(() => toolChoiceSchema([], 'required')).toThrow(malformed(/tools is empty/));
  });
});

describe('a named tool', () => {
  test('its parameters', () => {
    expect(toolChoiceSchema([tool('f'), tool('g', X)], { name: 'g' })).toEqual(X);
    expect(toolChoiceSchema([tool('f')], { name: 'f' })).toEqual(EMPTY);
  });

  test('must be there', () => {
    expect(() => toolChoiceSchema([tool('f'), tool('g')], { name: 'h' })).toThrow(
      malformed(/names "h"; tools has f, g/),
    );
    expect(() => toolChoiceSchema([tool('f')], { name: 'h'.repeat(1e6) })).toThrow(
      malformed(/names "h{999}…; tools has f/),
    );
    expect(() => toolChoiceSchema([], { name: 'h' })).toThrow(malformed(/tools has none/));
  });
});
