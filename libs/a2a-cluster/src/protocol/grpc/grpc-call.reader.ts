import { EventEmitter } from 'node:events';
import type { ServerWritableStream } from '@grpc/grpc-js';
import type { StreamReader } from '../response-flow.js';

/**
 * The reader of a gRPC stream. What is written to a call is buffered by number, 16 messages of any size, before it says
 * that it is full; so here it is full until what was written has been sent.
 */
export class GrpcCallReader extends EventEmitter implements StreamReader {
  private unsent = 0;

  constructor(private readonly call: ServerWritableStream<unknown, unknown>) {
    super();
    const write = call.write.bind(call) as (message: unknown, sent: () => void) => boolean;
    call.write = ((message: unknown) => {
      this.unsent += 1;
      return write(message, () => {
        this.unsent -= 1;
        if (this.unsent === 0) this.emit('drain');
      });
    }) as typeof call.write;
    // A client that cancels, a deadline that passes and a connection that breaks destroy the call, as its end does.
    call.once('close', () => this.emit('close'));
  }

  get destroyed(): boolean {
    return this.call.destroyed;
  }

  get writableNeedDrain(): boolean {
    return this.unsent > 0;
  }
}
