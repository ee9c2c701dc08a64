import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MessageSessionFactory;
import com.taobao.metamorphosis.client.MetaClientConfig;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.consumer.ConsumerConfig;
import com.taobao.metamorphosis.client.consumer.MessageConsumer;
import com.taobao.metamorphosis.client.consumer.MessageListener;
import com.taobao.metamorphosis.client.producer.MessageProducer;
import com.taobao.metamorphosis.client.producer.SendResult;
import com.taobao.metamorphosis.utils.ZkUtils.ZKConfig;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/**
 * The original's client at work: {@code RoundTrip ZOOKEEPER TOPIC consume COUNT} prints COUNT messages of a new group from the oldest
 * on, {@code RoundTrip ZOOKEEPER TOPIC produce COUNT PREFIX} sends COUNT messages and prints where they went.
 */
public final class RoundTrip {
    public static void main(String[] args) throws Exception {
        ZKConfig zookeeper = new ZKConfig();
        zookeeper.zkConnect = args[0];
        zookeeper.zkRoot = "/meta";
        MetaClientConfig config = new MetaClientConfig();
        config.setZkConfig(zookeeper);
        MessageSessionFactory sessions = new MetaMessageSessionFactory(config);
        int count = Integer.parseInt(args[3]);
        try {
            if (args[2].equals("consume")) {
                consume(sessions, args[1], count);
            } else {
                produce(sessions, args[1], count, args[4]);
            }
        } finally {
            sessions.shutdown();
        }
        System.exit(0);
    }

    private static void consume(MessageSessionFactory sessions, String topic, int count) throws Exception {
        ConsumerConfig config = new ConsumerConfig("round-trip-" + System.nanoTime());
        config.setMaxDelayFetchTimeInMills(100);
        MessageConsumer consumer = sessions.createConsumer(config);
        CountDownLatch left = new CountDownLatch(count);
        consumer.subscribe(topic, 1024 * 1024, new MessageListener() {
            @Override
            public void recieveMessages(Message message) {
                synchronized (System.out) {
                    System.out.println("message " + message.getId() + " " + message.getPartition().getPartition() + " " + message.getAttribute()
                            + " " + new String(message.getData(), StandardCharsets.UTF_8));
                }
                left.countDown();
            }

            @Override
            public Executor getExecutor() {
                return null;
            }
        });
        consumer.completeSubscribe();
        boolean all = left.await(60, TimeUnit.SECONDS);
        System.out.println(all ? "complete" : "missing " + left.getCount());
        consumer.shutdown();
    }

    private static void produce(MessageSessionFactory sessions, String topic, int count, String prefix) throws Exception {
        MessageProducer producer = sessions.createProducer();
        producer.publish(topic);
        for (int at = 0; at < count; at++) {
            String text = prefix + at;
            Message message = new Message(topic, text.getBytes(StandardCharsets.UTF_8), at % 2 == 0 ? "even" : null);
            SendResult sent = producer.sendMessage(message, 10, TimeUnit.SECONDS);
            if (!sent.isSuccess()) {
                throw new IllegalStateException(sent.getErrorMessage());
            }
            System.out.println("sent " + sent.getPartition().getPartition() + " " + sent.getOffset() + " " + text);
        }
        producer.shutdown();
    }
}
