//! Clients that know nothing of MCP: a line client and an HTTP client on one socket each.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard_testing::{HttpPeer, MODERN};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

/// A request of a modern client.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A request of a legacy client.
pub(crate) fn legacy(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A notification of a legacy client.
pub(crate) fn notification(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

/// Speaks newline-delimited JSON.
pub(crate) struct LineClient<T> {
    reader: BufReader<ReadHalf<T>>,
    writer: WriteHalf<T>,
}

impl<T: AsyncRead + AsyncWrite> LineClient<T> {
    pub(crate) fn new(stream: T) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: BufReader::new(reader), writer }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next line, or `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
        Some(line)
    }

    pub(crate) async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line().await.expect("the connection goes on")).unwrap()
    }

    pub(crate) async fn request(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.receive().await
    }
}

/// One HTTP connection.
pub(crate) struct HttpClient {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

/// What came back, with the frames of the body as they arrived.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) frames: Vec<Bytes>,
    pub(crate) broken: bool,
}

impl Got {
    pub(crate) fn body(&self) -> Bytes {
        self.frames.concat().into()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body().to_vec()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The messages of an event stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.text()
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .filter(|data| !data.trim().is_empty())
            .map(|it| serde_json::from_str(it).unwrap())
            .collect()
    }
}

impl HttpClient {
    pub(crate) async fn connect(server: &HttpPeer) -> Self {
        Self::connect_to(server.port()).await
    }

    pub(crate) async fn connect_to(port: u16) -> Self {
        let host = format!("127.0.0.1:{port}");
        let stream = TcpStream::connect(&host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, host }
    }

    /// Posts a message with all headers that a modern client sends for it.
    pub(crate) async fn post(&mut self, message: &Value) -> Got {
        self.try_post(message, &[]).await.unwrap()
    }

    pub(crate) async fn post_with(&mut self, message: &Value, headers: &[(&str, &str)]) -> Got {
        self.try_post(message, headers).await.unwrap()
    }

    pub(crate) async fn try_post(&mut self, message: &Value, headers: &[(&str, &str)]) -> hyper::Result<Got> {
        let response = self.sender.send_request(self.post_request(message, headers)).await?;
        Ok(read(response).await)
    }

    /// Sends the message and gives the response as soon as its head is there.
    pub(crate) async fn open(&mut self, message: &Value) -> hyper::Response<hyper::body::Incoming> {
        self.sender.send_request(self.post_request(message, &[])).await.unwrap()
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        headers: &[(&str, &str)],
    ) -> hyper::Response<hyper::body::Incoming> {
        let mut request = Request::builder().method(method).uri("/mcp").header("host", &self.host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.sender.send_request(request.body(Full::default()).unwrap()).await.unwrap()
    }

    fn post_request(&self, message: &Value, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method("POST")
            .uri("/mcp")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let params = &message["params"];
        if params["_meta"].is_object() {
            request = request.header("mcp-protocol-version", MODERN);
            request = request.header("mcp-method", message["method"].as_str().unwrap());
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                request = request.header("mcp-name", name);
            }
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::from(message.to_string())).unwrap()
    }
}

pub(crate) async fn read(response: hyper::Response<hyper::body::Incoming>) -> Got {
    let (head, mut body) = response.into_parts();
    let mut got = Got { status: head.status, headers: head.headers, frames: Vec::new(), broken: false };
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => got.frames.extend(frame.into_data().ok()),
            Err(_) => {
                got.broken = true;
                break;
            }
        }
    }
    got
}
