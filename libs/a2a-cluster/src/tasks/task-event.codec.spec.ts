import { isDeepStrictEqual } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Task } from '@a2a-js/sdk';
import fc from 'fast-check';
import { IDS, metadata, turn } from '../../../../test/helpers/task-arbitraries.js';
import type { TaskEvent } from './task-event.js';
import { copyEvent, copyTask, decodeEvent, decodeTask, encodeEvent, encodeTask } from './task-event.codec.js';

/** Every kind of event, with what executors and clients put into them. */
const event: fc.Arbitrary<TaskEvent> = turn.chain(({ userMessage, events }) =>
  fc.oneof(
    fc.constantFrom(...events).map((change): TaskEvent => {
      switch (change.kind) {
        case 'task':
          return { kind: 'task', task: change.data };
        case 'statusUpdate':
          return { kind: 'statusUpdate', statusUpdate: change.data };
        case 'artifactUpdate':
          return { kind: 'artifactUpdate', artifactUpdate: change.data };
      }
    }),
    fc.constant<TaskEvent>({ kind: 'userMessage', userMessage }),
    fc.constantFrom(...events).map((change): TaskEvent => {
      const status = change.kind === 'artifactUpdate' ? undefined : change.data.status;
      return { kind: 'statusUpdate', statusUpdate: { ...IDS, status, metadata: undefined }, fromTask: true };
    }),
    metadata.map((it): TaskEvent => ({ kind: 'taskMerge', taskMerge: { ...(it && { metadata: it }) } })),
    fc.constant<TaskEvent>({ kind: 'taskMerge', taskMerge: { history: [userMessage] } }),
  ),
);

/** Jest's equality stumbles over keys such as `constructor`. */
const expectSame = (actual: unknown, expected: unknown): void => expect(isDeepStrictEqual(actual, expected)).toBe(true);

const textPart = (value: string) => ({
  content: { $case: 'text' as const, value },
  metadata: undefined,
  filename: '',
  mediaType: '',
});

const artifactEvent = (part: ReturnType<typeof textPart> | object, of?: Record<string, unknown>): TaskEvent => ({
  kind: 'artifactUpdate',
  artifactUpdate: {
    ...IDS,
    append: false,
    lastChunk: true,
    metadata: of,
    artifact: {
      artifactId: 'a',
      name: '',
      description: '',
      parts: [part as never],
      metadata: undefined,
      extensions: [],
    },
  },
});

/** As an executor may that goes on using what it has published. */
function overwrite(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  if (Buffer.isBuffer(value)) return void value.fill(0);
  for (const key of Object.keys(value)) {
    const held = value as Record<string, unknown>;
    overwrite(held[key]);
    if (typeof held[key] !== 'object' && key !== 'kind' && key !== '$case') held[key] = 'overwritten';
  }
  if (Array.isArray(value)) value.push('overwritten');
}

describe('task-event.codec', () => {
  it('gives back every event as it was', () => {
    fc.assert(
      fc.property(event, (given) => {
        expectSame(decodeEvent(encodeEvent(given)), given);
      }),
      { numRuns: 200 },
    );
  });

  it('makes text that PostgreSQL can hold: no NUL and no lone surrogate in it', () => {
    fc.assert(
      fc.property(event, (given) => {
        const text = encodeEvent(given);
        expect(text).not.toContain('\0');
        expect(Buffer.from(text, 'utf8').toString('utf8')).toBe(text);
      }),
      { numRuns: 200 },
    );
  });

  it.each([
    ['NUL', 'a\0b'],
    ['a lone high surrogate', 'a\ud800'],
    ['a lone low surrogate', '\udfffb'],
    ['an escape that is meant as text', '\\u0000 \\ud800'],
    ['line separators', '\u2028\u2029'],
  ])('keeps %s in a text part', (_name, value) => {
    const given = artifactEvent(textPart(value));
    expect(decodeEvent(encodeEvent(given))).toStrictEqual(given);
  });

  it('keeps the bytes of raw parts, and gives them back as a Buffer', () => {
    const value = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const given = artifactEvent({ ...textPart(''), content: { $case: 'raw', value } });
    const decoded = decodeEvent(encodeEvent(given)) as Extract<TaskEvent, { kind: 'artifactUpdate' }>;
    const content = decoded.artifactUpdate.artifact?.parts[0]?.content;
    expect(Buffer.isBuffer(content?.value)).toBe(true);
    expect(content?.value).toEqual(value);
  });

  it('keeps a key named __proto__ as a key, and pollutes nothing with it', () => {
    const of = JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1, "nested": {"__proto__": 2}}') as object;
    const given = artifactEvent(textPart(''), of as Record<string, unknown>);
    const decoded = decodeEvent(encodeEvent(given)) as Extract<TaskEvent, { kind: 'artifactUpdate' }>;
    expect(JSON.stringify(decoded.artifactUpdate.metadata)).toBe(JSON.stringify(of));
    expect(Object.getPrototypeOf(decoded.artifactUpdate.metadata)).toBe(Object.prototype);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it('copies as storing and reading would, and gives the text that is stored', () => {
    fc.assert(
      fc.property(event, (given) => {
        const { event: copy, text } = copyEvent(given);
        expect(text).toBe(encodeEvent(given));
        expectSame(copy, decodeEvent(text));
        expect(encodeEvent(copy)).toBe(text);
      }),
    );
  });

  it('copies deeply: nothing that is changed in the event afterwards is changed in the copy', () => {
    fc.assert(
      fc.property(event, (given) => {
        const { event: copy, text } = copyEvent(given);
        overwrite(given);
        expect(encodeEvent(copy)).toBe(text);
      }),
    );
  });

  class Shown {
    toString(): string {
      return 'shown';
    }

    toJSON(): string {
      return 'as JSON';
    }
  }

  it.each<[string, object]>([
    ['numbers', { content: { $case: 'text', value: Number.NaN }, filename: 5 }],
    ['objects', { content: { $case: 'url', value: { toJSON: () => 'somewhere' } } }],
    ['objects of a class', { content: { $case: 'url', value: new Shown() }, filename: new Map() }],
    ['dates', { filename: new Date(0) }],
    ['nothing', { content: { $case: 'text', value: null }, mediaType: null }],
  ])('copies %s in the place of texts as storing and reading would', (_what, part) => {
    const { event: copy, text } = copyEvent(artifactEvent({ ...textPart(''), ...part }));
    expectSame(copy, decodeEvent(text));
  });

  it('refuses what could not be read again', () => {
    const event = artifactEvent(textPart(''));
    if (event.kind !== 'artifactUpdate') throw new Error('not an artifact');
    const { parts } = event.artifactUpdate.artifact!;
    parts[2] = textPart('behind a hole');
    expect(() => copyEvent(event)).toThrow(TypeError);
  });

  it('keeps nothing alive that a chunk was cut from', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const heldBytes = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const before = heldBytes();
    const kept = Array.from({ length: 20 }, (_, at) => {
      const body = Array.from({ length: 100_000 }, (_word, word) => `${at} ${word}`).join(' '); // a MB
      return copyEvent(artifactEvent(textPart(body.slice(100, 150))));
    });
    expect(heldBytes() - before).toBeLessThan(5_000_000);
    expect(kept).toHaveLength(20);
  });

  it('gives back every task as it was', () => {
    fc.assert(
      fc.property(turn, ({ events }) => {
        const [first] = events;
        const task = first?.kind === 'task' ? first.data : Task.fromJSON({});
        expectSame(decodeTask(encodeTask(task)), task);
        expectSame(copyTask(task), task);
      }),
    );
  });

  it('refuses what is none of its events', () => {
    expect(() => decodeEvent('{"somethingElse":{}}')).toThrow('an event of no known kind: {"somethingElse":{}}');
  });
});
