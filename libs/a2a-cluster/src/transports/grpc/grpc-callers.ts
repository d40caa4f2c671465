import { ForbiddenException, UnauthorizedException } from '@nestjs/common';
import { A2AError, RequestMalformedError } from '@a2a-js/sdk/errors';
import type { User } from '@a2a-js/sdk/server';
import { detailOf } from '../../errors/described.js';
import { ReplicaDrainingError } from '../../errors/replica-draining.error.js';
import type { RunningTurns } from '../../turns/running-turns.js';
import { isHarmless, MAX_DEPTH } from '../parsed-json.js';
import type { GrpcCall, GrpcUserBuilder } from '../../options/grpc.options.js';
import { GRPC_STATUS, GrpcStatusError } from '../../errors/grpc-status.error.js';
import { isOversized } from './grpc-values.js';
import { LibraryLogger } from '../../logging/library.logger.js';

const SENDS_MESSAGE = /\/Send(Streaming)?Message$/;

/** A call with what it asks. */
export type IncomingCall = GrpcCall & { readonly request: unknown };

/** The first that the SDK's services ask of a call: whether it is taken at all, and who calls. */
export class GrpcCallers {
  private readonly logger = new LibraryLogger(GrpcCallers.name);

  constructor(
    private readonly userBuilder: GrpcUserBuilder,
    private readonly running: RunningTurns,
    private readonly maxValues: number,
  ) {}

  /** Throws for a caller who is refused, for messages while the replica shuts down, and for what is nested too deep. */
  async admit(call: IncomingCall): Promise<User> {
    if (this.running.isDraining && SENDS_MESSAGE.test(call.getPath())) {
      throw new GrpcStatusError(GRPC_STATUS.UNAVAILABLE, new ReplicaDrainingError().message);
    }
    if (isOversized(call.request)) {
      throw new RequestMalformedError(`The request holds more than ${this.maxValues} values.`);
    }
    if (!isHarmless(call.request)) {
      throw new RequestMalformedError(`The request is nested deeper than ${MAX_DEPTH} levels.`);
    }
    try {
      return await this.userBuilder(call);
    } catch (error) {
      throw this.refusal(error);
    }
  }

  private refusal(error: unknown): A2AError {
    if (error instanceof A2AError) return error;
    if (error instanceof UnauthorizedException) return new GrpcStatusError(GRPC_STATUS.UNAUTHENTICATED, error.message);
    if (error instanceof ForbiddenException) return new GrpcStatusError(GRPC_STATUS.PERMISSION_DENIED, error.message);
    this.logger.error(detailOf(error));
    return new GrpcStatusError(GRPC_STATUS.INTERNAL, 'Internal error; the agent has logged it.');
  }
}
