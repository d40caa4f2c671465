/**
 * An app without a database whose agent awaits nothing of what it asks its turn for, while it runs, once its lease is gone,
 * and when it is long over. Prints how each of them came out, and that the process lives.
 */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { Message, SendMessageRequest, TaskState } from '@a2a-js/sdk';
import { AgentEvent, ServerCallContext, UnauthenticatedUser } from '@a2a-js/sdk/server';
import { A2A_REQUEST_HANDLER, A2AClusterModule } from 'nestjs-a2a-cluster';
import { LeaseStore } from 'nestjs-a2a-cluster/stores';
import { inMemoryStores } from 'nestjs-a2a-cluster/testing';

const turns = [];

class ForgetfulAgent {
  async execute({ taskId, contextId, turn, userMessage }, bus) {
    turns.push(turn);
    const publish = (state) => {
      const status = { state, message: undefined, timestamp: undefined };
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }));
    };
    publish(TaskState.TASK_STATE_WORKING);
    await turn.flush();
    if (Message.toJSON(userMessage).parts[0].text === 'loses its lease') {
      const { leases } = stores;
      await leases.release(turn.fencingToken);
      leases.inspect = () => Promise.resolve({ cancelRequested: [], lost: [turn.fencingToken] });
    }
    forget(turn);
    publish(TaskState.TASK_STATE_COMPLETED);
    forget(turn);
  }

  async cancelTask() {}
}

function forget(turn) {
  void turn.effect('charge', { replay: 'never' }, () => Promise.reject(new Error('refused by the outside')));
  void turn.effect('', { replay: 'never' }, () => undefined);
  void turn.transaction(() => undefined);
  void turn.flush();
}

const stores = {};
class App {}
const providers = inMemoryStores();
stores.leases = providers.find(({ provide }) => provide === LeaseStore).useValue;
Module({
  imports: [
    ScheduleModule.forRoot(),
    A2AClusterModule.forRoot({
      executor: ForgetfulAgent,
      agentCard: { name: 'forgetful agent', description: 'awaits nothing', version: '1' },
      publicUrl: 'http://127.0.0.1:1',
      leases: { heartbeatIntervalMs: 100, ttlMs: 1_000 },
      streams: { pollIntervalMs: 20 },
      transports: { jsonRpc: false, rest: false, agentCard: false },
      extraProviders: providers,
    }),
  ],
})(App);
const app = await NestFactory.createApplicationContext(App, { logger: false });
const handler = app.get(A2A_REQUEST_HANDLER, { strict: false });
const context = new ServerCallContext({ user: new UnauthenticatedUser(), requestedVersion: '1.0' });
for (const text of ['completes', 'loses its lease']) {
  const message = { messageId: text, role: 'ROLE_USER', parts: [{ text }] };
  const request = SendMessageRequest.fromJSON({ message, configuration: { returnImmediately: true } });
  await handler.sendMessage(request, context);
  await new Promise((resolve) => setTimeout(resolve, 300));
}
for (const turn of turns) forget(turn);
await new Promise((resolve) => setTimeout(resolve, 100));
await app.close();
process.stdout.write(`alive after ${turns.length} turns\n`);
