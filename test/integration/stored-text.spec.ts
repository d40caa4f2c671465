import { isDeepStrictEqual } from 'node:util';
import type { Part } from '@a2a-js/sdk';
import { newScope, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, message, status, taskEvent, textPart } from './events.fixture.js';

const NASTY: [string, string][] = [
  ['NUL', 'a\0b'],
  ['a lone surrogate', 'a\ud800b\udfff'],
  ['an escape that is meant as text', '\\u0000\\ud800\\'],
  ['quotes and braces of arrays', '{"a","b"} \'NULL\' "'],
  ['line separators', '\r\n\u2028\u2029\u0085'],
  ['beyond the basic plane', '\u{1f600}\u{10ffff}'],
];

describe('What PostgreSQL text cannot hold as it is', () => {
  const cluster = useCluster();

  it.each(NASTY)('%s goes through log, snapshot, tail and stream', async (_name, text) => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const scope = newScope();
    const metadata = { [text]: text, nested: [{ [text]: [text] }] };
    const turn = await a.startTurn(scope, message(text));
    turn.loop!.add(taskEvent(scope, { metadata }));
    turn.loop!.add(artifact(scope, 'a1', text));
    await turn.flush();
    const { taskNo } = turn.loop!.key!;
    const tail = await b.tasks.find(scope); // the artifact is in the tail
    expect(tail?.task.metadata).toEqual(metadata);
    expect(tail?.task.artifacts[0]?.parts[0]?.content).toEqual({ $case: 'text', value: text });
    turn.loop!.add(status(scope, COMPLETED, text));
    await turn.flush();
    const whole = await b.tasks.find(scope); // all of it is in the snapshot
    expect(whole?.task.history[0]?.parts[0]?.content?.value).toBe(text);
    expect(whole?.task.status?.message?.parts[0]?.content?.value).toBe(text);
    const followed = [];
    for await (const { event } of b.stream.follow(taskNo, 1, new AbortController().signal)) followed.push(event);
    const [update] = followed.flatMap((event) => (event.kind === 'artifactUpdate' ? [event.artifactUpdate] : []));
    expect(update?.artifact?.parts[0]?.content?.value).toBe(text);
  });

  it('raw parts keep their bytes, and come back as Buffers', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const raw: Part = { ...textPart(''), content: { $case: 'raw', value: bytes } };
    const scope = newScope();
    const turn = await a.startTurn(scope, { ...message(), parts: [raw] });
    turn.loop!.add(taskEvent(scope));
    await turn.flush();
    const content = (await b.tasks.find(scope))?.task.history[0]?.parts[0]?.content;
    expect(Buffer.isBuffer(content?.value)).toBe(true);
    expect(content?.value).toEqual(bytes);
  });

  it('keys that objects have a meaning of their own for stay keys', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const metadata = JSON.parse('{"__proto__": {"polluted": true}, "constructor": null, "toString": 1}') as object;
    const scope = newScope();
    const turn = await a.startTurn(scope, message());
    turn.loop!.add(taskEvent(scope, { metadata: { first: 1 } }));
    turn.loop!.add({ kind: 'taskMerge', taskMerge: { metadata: metadata as Record<string, unknown> } });
    await turn.flush();
    const stored = (await b.tasks.find(scope))?.task.metadata;
    expect(isDeepStrictEqual(stored, { first: 1, ...metadata })).toBe(true);
    expect(Object.keys(stored ?? {})).toEqual(['first', '__proto__', 'constructor', 'toString']);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it('a message of 5 MB is one commit like any other', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const scope = newScope();
    const text = 'é'.repeat(2_500_000);
    const turn = await a.startTurn(scope, message(text));
    turn.loop!.add(taskEvent(scope));
    await turn.flush();
    const { taskNo } = turn.loop!.key!;
    expect((await b.tasks.find(scope))?.task.history[0]?.parts[0]?.content?.value).toBe(text);
    expect(await b.tasks.versions([taskNo])).toEqual(new Map([[taskNo, 1]]));
  });
});
