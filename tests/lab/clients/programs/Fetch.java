import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

/** Fetches a URL with the JDK's HttpClient as it is, and prints what it gets. */
class Fetch {
    public static void main(String[] arguments) throws Exception {
        var answer = HttpClient.newHttpClient()
                .send(HttpRequest.newBuilder(URI.create(arguments[0])).build(), BodyHandlers.ofString());
        System.out.println(answer.version() + " " + answer.statusCode() + " " + answer.body());
        System.exit(answer.statusCode() < 400 ? 0 : 1);
    }
}
