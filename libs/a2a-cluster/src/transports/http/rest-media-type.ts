import { A2A_CONTENT_TYPE } from '@a2a-js/sdk';
import { ContentTypeNotSupportedError, toRestErrorBody } from '@a2a-js/sdk/errors';
import type { Request, Response } from 'express';

const PLAIN_JSON = 'application/json';

/**
 * Has the client answered in the media type that it names, where the SDK always takes A2A's own. A2A 1.0.0 answers in
 * plain JSON, 1.0.1 prefers its own type: a client that names neither may know the former only, and both can read it.
 */
export function answerInNamedMediaType(req: Request, res: Response): void {
  const json = res.json.bind(res);
  res.json = (body) => {
    if (res.get('Content-Type')?.startsWith(A2A_CONTENT_TYPE)) res.type(namedMediaType(req)).vary('Accept');
    return json(body);
  };
}

/** The type that Accept prefers; the type of the request's own body if Accept leaves the choice. */
function namedMediaType(req: Request): string {
  const [first, second] = req.is(A2A_CONTENT_TYPE) ? [A2A_CONTENT_TYPE, PLAIN_JSON] : [PLAIN_JSON, A2A_CONTENT_TYPE];
  return req.accepts([first, second]) || first;
}

/**
 * Answers a body in a media type that the binding does not know with HTTP's status for that. The SDK says 400, which A2A
 * 1.0.1 has for media types inside of messages. False where it is known, or there is none.
 */
export function answeredOddMediaType(req: Request, res: Response): boolean {
  const given = req.get('Content-Type');
  const mediaType = given?.split(';', 1)[0]?.trim().toLowerCase();
  if (!mediaType || mediaType === PLAIN_JSON || mediaType === A2A_CONTENT_TYPE) return false;
  const error = new ContentTypeNotSupportedError(
    `Unsupported Content-Type "${given}": send ${PLAIN_JSON} or ${A2A_CONTENT_TYPE}.`,
  );
  res.status(415).type(A2A_CONTENT_TYPE).json(toRestErrorBody(error, 415));
  return true;
}
