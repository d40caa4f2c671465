import type { A2ARequestHandler } from '@a2a-js/sdk/server';

/** A contender that serves the bench's agent: asked through its request handler, so that HTTP hides no difference. */
export interface AgentServer {
  handler: A2ARequestHandler;
  /** Lets turns that hold come to their end. */
  release(): void;
  close(): Promise<void>;
}
