import { randomUUID } from 'node:crypto';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import {
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  Scope,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { type ContextCodec, defaultContextCodec, type TurnExecutor, TurnRequestContext } from 'nestjs-a2a-cluster';
import type { Observable } from 'rxjs';
import { stateName } from '../helpers/recording.js';
import {
  DEAD,
  agentByAttempt,
  ended,
  hangsAfterWorking,
  RecoveryFixture,
  reExecuting,
  sweep,
} from './abandoned-turns.fixture.js';
import { type AgentApp, cardWith } from './agent-app.fixture.js';
import { completed } from './agent-events.js';
import { callBody, post } from './raw-requests.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

describe('The caller of a turn that is run again', () => {
  const headers = {
    authorization: 'Bearer alice',
    'a2a-extensions': 'https://example.com/one, https://example.com/two',
  };
  const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
  const params = { tenant: 'acme', message, configuration: { returnImmediately: true } };

  /** A new task of alice's in a tenant of its own. */
  async function beginAsAlice(app: AgentApp): Promise<string> {
    const body = callBody('JSONRPC', 'SendMessage', { ...params, message: { ...message, messageId: randomUUID() } });
    const { text } = await post(app, 'JSONRPC', body, { headers });
    return (JSON.parse(text) as { result: { task: { id: string } } }).result.task.id;
  }

  const stateOf = async (taskId: string): Promise<{ state: string; tenant: string; owner: string; snapshot: string }> =>
    (
      await fixture.database.query<{ state: string; tenant: string; owner: string; snapshot: string }>(
        'SELECT state, tenant, owner, snapshot FROM a2a_tasks WHERE task_id = $1',
        [taskId],
      )
    )[0]!;

  test('is the same: user, tenant, version and extensions, and so the owner of what it reads', async () => {
    const agent = agentByAttempt(hangsAfterWorking, (context, bus) => completed(bus, context));
    const extensions = ['https://example.com/one', 'https://example.com/two'].map((uri) => ({
      uri,
      description: '',
      required: false,
      params: undefined,
    }));
    const agentCard = cardWith({ extensions });
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting({}, { agentCard }) });
    const id = await beginAsAlice(a);
    expect(await stateOf(id)).toMatchObject({ tenant: 'acme', owner: 'alice' });
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    await leases.gone();
    expect((await stateOf(id)).state).toBe('TASK_STATE_COMPLETED');
    const [first, second] = agent.runs.map(({ context: { context } }) => ({
      user: { name: context.user?.userName, authenticated: context.user?.isAuthenticated },
      tenant: context.tenant,
      version: context.requestedVersion,
      extensions: context.requestedExtensions,
    }));
    expect(second).toEqual(first);
    expect(second).toEqual({
      user: { name: 'alice', authenticated: true },
      tenant: 'acme',
      version: '1.0',
      extensions: ['https://example.com/one', 'https://example.com/two'],
    });
  });

  test('who is nobody stays nobody', async () => {
    const agent = agentByAttempt(hangsAfterWorking, (context, bus) => completed(bus, context));
    const { b, atA, id } = await fixture.abandoned(agent);
    await sweep(b);
    await ended(atA, id);
    const [first, second] = agent.runs.map(({ context: { context } }) => context);
    expect([second!.user?.isAuthenticated, second!.user?.userName]).toEqual([false, first!.user?.userName]);
    expect([second!.tenant, second!.requestedExtensions]).toEqual([first!.tenant, first!.requestedExtensions]);
  });

  const encode: ContextCodec['encode'] = (context) => defaultContextCodec.encode(context);
  const decode: ContextCodec['decode'] = (text) => defaultContextCodec.decode(text);
  const bob = JSON.stringify({ tenant: 'acme', user: { name: 'bob', authenticated: true }, version: '1.0' });
  const elsewhere = JSON.stringify({ tenant: 'other', user: { name: 'alice', authenticated: true }, version: '1.0' });

  test.each([
    ['a codec that throws', () => decode('{the key'), /not be restored: .*JSON/],
    ['a codec that leads to another owner', () => decode(bob), /another owner/],
    ['a codec that leads to another tenant', () => decode(elsewhere), /another owner/],
    ['a codec that gives nothing', () => undefined, /could not be restored/],
  ])('%s: FAILED with the reason, and nobody runs it', async (_name, broken, reason) => {
    const agent = agentByAttempt(hangsAfterWorking, (context, bus) => completed(bus, context));
    const codec = { encode, decode: () => broken() as never };
    const a = await fixture.start({ ...agent, cluster: reExecuting() });
    const b = await fixture.start({ ...agent, cluster: reExecuting({}, { contextCodec: codec }) });
    const id = await beginAsAlice(a);
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ failed: 1, reExecuted: 0, errors: 0 });
    const { state, snapshot } = await stateOf(id);
    expect([state, snapshot]).toEqual(['TASK_STATE_FAILED', expect.stringMatching(reason)]);
    expect(agent.runs).toHaveLength(1);
    await leases.gone();
  });

  test.each([
    ['request', "'{'", /request could not be restored/],
    ['request', "'null'", /request could not be restored/],
    ['request', "'{}'", /request could not be restored: it has no message/],
    ['request', 'NULL', /request could not be restored/],
    ['request', `'{"message": 7}'`, /request could not be restored/],
    ['context', "'not JSON'", /caller of its request could not be restored/],
    ['context', "'null'", /caller of its request could not be restored/],
    ['context', "'{}'", /caller of its request could not be restored/],
    ['context', `'${bob}'`, /another owner/],
  ])('the lease holds a damaged %s, %s: FAILED with the reason', async (column, value, reason) => {
    const agent = agentByAttempt(hangsAfterWorking, (context, bus) => completed(bus, context));
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting() });
    const id = await beginAsAlice(a);
    await fixture.database.query(`UPDATE a2a_task_leases SET ${column} = ${value}`);
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ failed: 1, reExecuted: 0, errors: 0 });
    const { state, snapshot } = await stateOf(id);
    expect([state, snapshot]).toEqual(['TASK_STATE_FAILED', expect.stringMatching(reason)]);
    expect(snapshot).toContain(DEAD);
    expect(agent.runs).toHaveLength(1);
    await leases.gone();
  });
});

describe("The executor's enhancers", () => {
  const log: string[] = [];
  const made: { executor: object; request: unknown }[] = [];
  beforeEach(() => {
    log.splice(0);
    made.splice(0);
  });

  @Injectable()
  class LoggingGuard implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      log.push(`guard of ${context.getHandler().name}`);
      return true;
    }
  }

  @Injectable()
  class LoggingInterceptor implements NestInterceptor {
    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const { turn } = context.getArgByIndex<TurnRequestContext>(0);
      log.push(`interceptor in attempt ${turn.attempt}`);
      return next.handle();
    }
  }

  @UseGuards(LoggingGuard)
  @UseInterceptors(LoggingInterceptor)
  @Injectable({ scope: Scope.REQUEST })
  class EnhancedAgent implements TurnExecutor {
    constructor(@Inject(REQUEST) private readonly request: TurnRequestContext) {}

    async execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
      made.push({ executor: this, request: this.request });
      if (context.turn.attempt === 1) await hangsAfterWorking(context, bus);
      completed(bus, context);
    }

    cancelTask(): Promise<void> {
      return Promise.resolve();
    }
  }

  test('guards are not asked again, interceptors run again, and a request-scoped executor is made anew', async () => {
    const { b, atB, id } = await fixture.abandoned({}, { cluster: reExecuting({}, { executor: EnhancedAgent }) });
    await sweep(b);
    expect(stateName(await ended(atB, id))).toBe('COMPLETED');
    expect(log).toEqual(['guard of execute', 'interceptor in attempt 1', 'interceptor in attempt 2']);
    expect(made[1]!.executor).not.toBe(made[0]!.executor);
    expect(made[1]!.request).toBeInstanceOf(TurnRequestContext);
    expect((made[1]!.request as TurnRequestContext).turn.attempt).toBe(2);
  });
});
