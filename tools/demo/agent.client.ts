import type { SendMessageRequest, SendMessageResult, Task } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { clientFor, userMessage } from '../harness/client.js';
import { expect, within } from './expect.js';
import { Watcher } from './watcher.js';

/** The two transports the demo uses. */
export type Protocol = 'JSONRPC' | 'HTTP+JSON';

/** The SDK's own client at one replica, over one transport. */
export class AgentClient {
  private constructor(
    readonly replica: string,
    private readonly client: Client,
  ) {}

  /** Reads the agent card and takes the transport wished for from it. */
  static async connect(replica: string, url: string, protocol: Protocol): Promise<AgentClient> {
    const client = await clientFor(url, { transport: protocol });
    const { protocolName } = client.transport;
    expect(protocolName === protocol, `replica ${replica} is reached by ${protocolName}, not by ${protocol}`);
    return new AgentClient(replica, client);
  }

  /** Sends a message and watches the stream that answers it. */
  stream(text: string): Watcher {
    return new Watcher(`${this.replica} sender`, this.client.sendMessageStream(request(text)));
  }

  /** Sends a follow-up and waits for its end. */
  followUp(text: string, taskId: string): Promise<SendMessageResult> {
    return within(`the follow-up at ${this.replica}`, this.client.sendMessage(request(text, taskId)));
  }

  /** Subscribes to a task, and is subscribed when the task itself has come. */
  async subscribe(taskId: string): Promise<Watcher> {
    const stream = this.client.resubscribeTask({ tenant: '', id: taskId });
    const watcher = new Watcher(`${this.replica} watcher`, stream);
    await watcher.first('the task', () => true);
    return watcher;
  }

  task(taskId: string): Promise<Task> {
    return within(`GetTask at ${this.replica}`, this.client.getTask({ tenant: '', id: taskId }));
  }

  cancel(taskId: string): Promise<Task> {
    const params = { tenant: '', id: taskId, metadata: undefined };
    return within(`CancelTask at ${this.replica}`, this.client.cancelTask(params));
  }
}

function request(text: string, taskId = ''): SendMessageRequest {
  return { tenant: '', message: userMessage(text, { taskId }), configuration: undefined, metadata: undefined };
}
