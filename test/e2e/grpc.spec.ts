import { ForbiddenException, UnauthorizedException } from '@nestjs/common';
import { status } from '@grpc/grpc-js';
import { A2AGrpcServer } from 'nestjs-a2a-cluster';
import { RawGrpcClient } from '../helpers/raw-grpc-client.js';
import { AgentAppFixture } from './agent-app.fixture.js';
import { targetOf, withGrpc } from './grpc.fixture.js';
import { cardOf } from './raw-requests.js';
import { askingAgent } from './agents.js';

const fixture = new AgentAppFixture();

describe('gRPC', () => {
  test('is off unless it is asked for', async () => {
    const app = await fixture.start(askingAgent);
    expect(app.nest.get(A2AGrpcServer, { strict: false }).port).toBeUndefined();
    expect((await cardOf(app)).supportedInterfaces.map(({ protocolBinding }) => protocolBinding)).toEqual([
      'JSONRPC',
      'HTTP+JSON',
    ]);
  });
});

describe('Callers over gRPC', () => {
  test('who are refused get the status, and nothing of what else went wrong', async () => {
    const errors = [new UnauthorizedException('no token'), new ForbiddenException('not you'), new Error('secret')];
    const app = await fixture.start(
      withGrpc(askingAgent, { userBuilder: ({ metadata }: never) => Promise.reject(errors[which(metadata)]!) }),
    );
    const raw = new RawGrpcClient(targetOf(app));
    const failure = async (at: number): Promise<unknown> => {
      const { code, details } = await raw.failure(
        'getTask',
        { tenant: '', id: 'x' },
        { 'a2a-version': '1.0', which: String(at) },
      );
      return [code, details];
    };
    expect(await failure(0)).toEqual([status.UNAUTHENTICATED, 'no token']);
    expect(await failure(1)).toEqual([status.PERMISSION_DENIED, 'not you']);
    expect(await failure(2)).toEqual([status.INTERNAL, 'Internal error; the agent has logged it.']);
    expect(fixture.logger.errors.join()).toContain('secret');
  });

  const which = (metadata: { get(name: string): unknown[] }): number => Number(metadata.get('which')[0]);
});
