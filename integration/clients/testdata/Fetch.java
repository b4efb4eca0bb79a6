import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.HttpsURLConnection;

/** Each of Java's own clients, on the host of the first argument. */
class Fetch {
	public static void main(String[] args) throws Exception {
		var host = args[0];
		var https = (HttpsURLConnection) new URL("https://" + host + "/data/file.txt").openConnection();
		try (var in = https.getInputStream()) {
			System.out.write(in.readAllBytes());
		}
		var client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(20)).build();
		var answer = client.send(HttpRequest.newBuilder(URI.create("https://" + host + "/data/file.txt")).build(), HttpResponse.BodyHandlers.ofString());
		System.out.println(answer.version() + " " + answer.body().strip());
		socket(client, host);
		System.exit(0); // not waiting for the client's threads
	}

	/** The server speaks first; then messages of all sizes go out and come back, many under way at once, and each side says goodbye. */
	static void socket(HttpClient client, String host) throws Exception {
		var heard = new LinkedBlockingQueue<byte[]>();
		var closed = new LinkedBlockingQueue<Integer>();
		var ws = client.newWebSocketBuilder().buildAsync(URI.create("wss://" + host + "/socket"), new WebSocket.Listener() {
			private final ByteArrayOutputStream part = new ByteArrayOutputStream();

			@Override
			public CompletionStage<?> onBinary(WebSocket ws, ByteBuffer data, boolean last) {
				while (data.hasRemaining()) {
					part.write(data.get());
				}
				if (last) {
					heard.add(part.toByteArray());
					part.reset();
				}
				ws.request(1);
				return null;
			}

			@Override
			public CompletionStage<?> onClose(WebSocket ws, int status, String reason) {
				closed.add(status);
				return null;
			}
		}).get(20, TimeUnit.SECONDS);
		var first = new String(heard.poll(20, TimeUnit.SECONDS));
		var random = new Random(1);
		var sizes = new int[] {0, 1, 125, 126, 65535, 65536, 1 << 20, 7};
		var said = new byte[64][];
		for (int i = 0; i < said.length; i++) {
			said[i] = new byte[i < 8 ? sizes[i] : 1000 + i];
			random.nextBytes(said[i]);
			ws.sendBinary(ByteBuffer.wrap(said[i]), true).get(20, TimeUnit.SECONDS);
		}
		int same = 0;
		for (var want : said) {
			if (Arrays.equals(want, heard.poll(20, TimeUnit.SECONDS))) {
				same++;
			}
		}
		ws.sendBinary(ByteBuffer.wrap("goodbye".getBytes()), true).get(20, TimeUnit.SECONDS);
		var last = new String(heard.poll(20, TimeUnit.SECONDS));
		System.out.println(first + " " + same + " " + last + " " + closed.poll(20, TimeUnit.SECONDS));
	}
}
