/** A2A's objects as they are on the wire: ProtoJSON. */

export interface WirePart {
  text?: string;
  raw?: string;
  url?: string;
  data?: unknown;
  mediaType?: string;
  filename?: string;
}

export interface WireMessage {
  messageId: string;
  role: string;
  parts: WirePart[];
  taskId?: string;
  contextId?: string;
}

export interface WireArtifact {
  artifactId: string;
  parts: WirePart[];
}

export interface WireTask {
  id: string;
  contextId: string;
  status: { state: string; timestamp?: string; message?: WireMessage };
  artifacts?: WireArtifact[];
  history?: WireMessage[];
}

/** An item of a stream: one of the four. */
export interface WireEvent {
  task?: WireTask;
  message?: WireMessage;
  statusUpdate?: { taskId: string; contextId: string; status: WireTask['status'] };
  artifactUpdate?: {
    taskId: string;
    contextId: string;
    artifact: WireArtifact;
    append?: boolean;
    lastChunk?: boolean;
  };
}

/** Parameters of an operation. */
export type WireParams = Record<string, unknown>;
