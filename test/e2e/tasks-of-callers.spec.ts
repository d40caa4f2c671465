import { randomUUID } from 'node:crypto';
import type { ListTasksRequest } from '@a2a-js/sdk';
import { UnauthenticatedUser } from '@a2a-js/sdk/server';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { cancel, errorName, errorOf, getTask, send, stream, subscribe } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { AgentAppFixture, type AgentAppOptions, type AgentBehaviour, TRANSPORTS } from './agent-app.fixture.js';
import { artifactOf, completed, inputRequired, publishArtifact, textOf, textPart } from './agent-events.js';
import { listTasks } from '../helpers/list-tasks.js';

const fixture = new AgentAppFixture();

const agent: AgentBehaviour = {
  execute: (context, bus) => {
    publishArtifact(bus, context, artifactOf('a1', textPart('made')));
    if (textOf(context.userMessage).startsWith('end')) completed(bus, context);
    else inputRequired(bus, context);
  },
};

/** Leaves the caller in `req.user`, in passport's manner. */
@Injectable()
class BearerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<Request & { user?: object }>();
    const name = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (name) request.user = { username: name };
    return true;
  }
}

const forms: [string, AgentAppOptions][] = [
  ['a guard of the app that sets req.user', { cluster: { guards: [BearerGuard], userBuilder: undefined as never } }],
  ['a guard instance', { cluster: { guards: [new BearerGuard()], userBuilder: undefined as never } }],
  [
    'middleware that sets req.user to a name',
    {
      cluster: { userBuilder: undefined as never },
      configure: (nest) =>
        nest.use((req: Request & { user?: unknown }, _res: unknown, next: () => void) => {
          req.user = /^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1];
          next();
        }),
    },
  ],
  ['a userBuilder', {}],
  [
    'an ownerResolver',
    {
      cluster: {
        userBuilder: ({ headers }) =>
          Promise.resolve(
            headers.authorization
              ? { isAuthenticated: true, userName: headers.authorization }
              : new UnauthenticatedUser(),
          ),
        ownerResolver: ({ user }) => (user?.isAuthenticated ? `owner ${user.userName}` : 'nobody'),
      },
    },
  ],
];

const rowOf = (taskId: string): Promise<unknown> =>
  fixture.database.query('SELECT state, version, owner FROM a2a_tasks WHERE task_id = $1', [taskId]);

const tokenOf = (text: string): string => Buffer.from(text).toString('base64url');

describe.each(forms)('O43 callers told apart by %s', (_form, options) => {
  test.each(TRANSPORTS)("somebody else's task is not found, by any call over %s, and unchanged", async (transport) => {
    const app = await fixture.start({ ...agent, ...options });
    const alice = await app.client({ transport, user: randomUUID() });
    const { id } = await send(alice, 'mine');
    const before = await rowOf(id);
    for (const other of [await app.client({ transport, user: 'mallory' }), await app.client({ transport })]) {
      const calls = [getTask(other, id), cancel(other, id), subscribe(other, id)];
      const sends = [send(other, 'yours', { taskId: id }), stream(other, 'yours', { taskId: id })];
      for (const call of [...calls, ...sends]) expect(await errorName(call)).toBe('TaskNotFoundError');
      expect((await listTasks(other)).tasks).toEqual([]);
    }
    expect(await rowOf(id)).toEqual(before);
    expect((await listTasks(alice)).tasks.map((task) => task.id)).toEqual([id]);
    expect(stateName(await cancel(alice, id))).toBe('CANCELED');
  });
});

test('O43 a guard that refuses a request keeps it from the agent, in whatever form Nest answers', async () => {
  const app = await fixture.start({ ...agent, cluster: { guards: [{ canActivate: () => false }] } });
  for (const path of ['/a2a/jsonrpc', '/a2a/rest/message:send']) {
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    for (const body of ['{}', '{', 'x'.repeat(11 * 1024 * 1024)]) {
      const response = await fetch(app.url + path, { method: 'POST', headers, body });
      expect(response.status).toBe(403);
      await response.text();
    }
  }
  expect((await fetch(`${app.url}/.well-known/agent-card.json`)).status).toBe(200);
});

test('a req.user without a name is an error, never an anonymous caller', async () => {
  const app = await fixture.start({
    ...agent,
    cluster: { userBuilder: undefined as never },
    configure: (nest) =>
      nest.use((req: Request & { user?: unknown }, _res: unknown, next: () => void) => {
        req.user = { roles: ['admin'] };
        next();
      }),
  });
  await expect(app.client().then((client) => send(client, 'hello'))).rejects.toThrow();
  await expect(app.client({ transport: 'HTTP+JSON' }).then((client) => send(client, 'hello'))).rejects.toThrow();
});

describe.each(TRANSPORTS)('ListTasks, over %s', (transport) => {
  test('loses no task and shows none twice that stays as it is while others change and come, at another replica', async () => {
    const [a, b] = await fixture.startTwo(agent);
    const user = `changes ${transport}`;
    const [client, elsewhere] = [await a.client({ transport, user }), await b.client({ transport, user })];
    const ids: string[] = [];
    for (let at = 0; at < 20; at += 1) ids.push((await send(client, `ask ${at}`)).id);
    const changed = new Set<string>();
    const change = async (at: number): Promise<void> => {
      const taskId = ids[at]!;
      changed.add(taskId);
      await (at % 2 ? cancel(elsewhere, taskId) : send(elsewhere, 'ask more', { taskId }));
    };
    const seen: string[] = [];
    let pageToken = '';
    // Of those seen already and of those to come, some change before each page, and some during it.
    const changes = [3, 18, 9, 0, 14, 5];
    do {
      const [one, other] = changes.splice(0, 2);
      if (one !== undefined) await change(one);
      const [page] = await Promise.all([
        listTasks(client, { pageSize: 4, pageToken }),
        ...(other === undefined ? [] : [change(other)]),
        send(elsewhere, 'ask anew'),
      ]);
      seen.push(...page.tasks.map(({ id }) => id));
      ({ nextPageToken: pageToken } = page);
    } while (pageToken);
    expect(changes).toEqual([]);
    const unchanged = ids.filter((id) => !changed.has(id)).reverse();
    expect(seen.filter((id) => unchanged.includes(id))).toEqual(unchanged);
  });

  test('filters by context, by state and by time, and counts what matches', async () => {
    const app = await fixture.start(agent);
    const client = await app.client({ transport, user: `filters ${transport}` });
    const first = await send(client, 'ask', { contextId: 'one' });
    await send(client, 'end', { contextId: 'two' });
    const last = await send(client, 'end', { contextId: 'one' });
    const ids = async (params: Partial<ListTasksRequest>): Promise<string[]> => {
      const { tasks, totalSize, nextPageToken } = await listTasks(client, params);
      expect([totalSize, nextPageToken]).toEqual([tasks.length, '']);
      return tasks.map(({ id }) => id);
    };
    expect(await ids({ contextId: 'one' })).toEqual([last.id, first.id]);
    expect(await ids({ contextId: 'one', status: first.status!.state })).toEqual([first.id]);
    expect(await ids({ contextId: 'none' })).toEqual([]);
    await fixture.database.query("UPDATE a2a_tasks SET state_since = state_since - interval '1 h' WHERE task_id = $1", [
      first.id,
    ]);
    const [now] = await fixture.database.query<{ then: Date }>("SELECT now() - interval '30 min' AS then");
    expect(await ids({ statusTimestampAfter: now!.then.toISOString() })).toHaveLength(2);
    expect(await ids({ statusTimestampAfter: '2020-01' })).toHaveLength(3);
    expect(await ids({ statusTimestampAfter: '2999-01-01T00:00:00Z' })).toEqual([]);
  });

  test.each([
    ['a page token that is none', { pageToken: 'bm9uZQ' }],
    ['a page token with a NUL in it', { pageToken: tokenOf('1|2020-01-01 00:00:00+00\0') }],
    ['a page token with a time that is none', { pageToken: tokenOf('1|2020-13-45 25:61:61+00') }],
    ['a page size of 0', { pageSize: 0 }],
    ['a time that is none', { statusTimestampAfter: 'yesterday' }],
    ['a context id with a NUL', { contextId: 'a\0b' }],
  ] as [string, Partial<ListTasksRequest>][])('%s is a malformed request', async (_what, params) => {
    const app = await fixture.start(agent);
    const client = await app.client({ transport, user: 'malformed' });
    const error = await errorOf(listTasks(client, params));
    expect(error.name).toBe('RequestMalformedError');
    expect((await listTasks(client)).tasks).toEqual([]);
  });
});
