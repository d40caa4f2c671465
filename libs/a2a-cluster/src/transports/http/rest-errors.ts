import { A2A_CONTENT_TYPE } from '@a2a-js/sdk';
import { type A2AError, toRestErrorBody } from '@a2a-js/sdk/errors';
import type { Response } from 'express';

/** In what form a request is answered: that of its transport, and HTTP+JSON has another one in version 0.3. */
export type AnswerForm = 'jsonRpc' | 'rest' | 'legacyRest';

/** An error of ours over HTTP+JSON, as the SDK writes its own. `code` is what it is in version 0.3. */
export function answerRestError(
  form: AnswerForm,
  status: number,
  error: A2AError,
  code: number,
  res: Response,
): Response {
  res.status(status);
  if (form === 'rest') return res.type(A2A_CONTENT_TYPE).json(toRestErrorBody(error, status));
  return res.json({ code, message: error.message });
}
